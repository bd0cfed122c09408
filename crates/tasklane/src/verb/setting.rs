//! Settings of a queue as people write them: every part by its name, so that none is forgotten.

use tasklane_client::wire::{
    AgingSettings, DepthSettings, QueueMember, RetentionSettings, Seconds,
};

use crate::value::span;

const NEVER: &str = "never";
const FOREVER: &str = "forever";

pub(super) fn aging(text: &str) -> Result<AgingSettings, String> {
    let times = parts(text, ["normal", "high", "critical"], |text| time(text, NEVER))?;
    let [normal_seconds, high_seconds, critical_seconds] = times;
    Ok(AgingSettings { normal_seconds, high_seconds, critical_seconds })
}

pub(super) fn weights(text: &str) -> Result<[u32; 4], String> {
    parts(text, ["critical", "high", "normal", "low"], number)
}

pub(super) fn depth_limits(text: &str) -> Result<DepthSettings, String> {
    let [normal, high, all] = parts(text, ["normal", "high", "all"], number)?;
    Ok(DepthSettings { normal, high, all })
}

pub(super) fn retention(text: &str) -> Result<RetentionSettings, String> {
    let states = ["completed", "cancelled", "failed", "dead_letter"];
    let times = parts(text, states, |text| time(text, FOREVER))?;
    let [completed_seconds, cancelled_seconds, failed_seconds, dead_letter_seconds] = times;
    Ok(RetentionSettings {
        completed_seconds,
        cancelled_seconds,
        failed_seconds,
        dead_letter_seconds,
    })
}

/// A setting by its word.
pub(super) fn member(text: &str) -> Result<QueueMember, String> {
    match text.replace('-', "_").as_str() {
        "order" => Ok(QueueMember::Order),
        "weight" => Ok(QueueMember::Weight),
        "depth_limits" => Ok(QueueMember::DepthLimits),
        "retention" => Ok(QueueMember::Retention),
        _ => Err("give order, weight, depth_limits or retention".to_owned()),
    }
}

/// The value of each name, in the order of `names`.
fn parts<T, const N: usize>(
    text: &str,
    names: [&str; N],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<[T; N], String> {
    let expected = || format!("give each of {} once, as NAME=VALUE", names.join(", "));
    let given: Vec<_> = text.split(',').filter_map(|part| part.split_once('=')).collect();
    if given.len() != text.split(',').count() || given.len() != N {
        return Err(expected());
    }
    let mut values = Vec::new();
    for name in names {
        let value = given.iter().find(|(own, _)| own.trim() == name).ok_or_else(expected)?.1;
        values.push(read(value.trim()).map_err(|wrong| format!("{name}: {wrong}"))?);
    }
    values.try_into().map_err(|_| expected())
}

fn time(text: &str, without: &str) -> Result<Option<Seconds>, String> {
    if text == without {
        return Ok(None);
    }
    let time = span(text).map_err(|wrong| format!("{wrong}, or {without}"))?;
    Ok(Some(Seconds(time)))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_named_once_in_any_order() {
        assert_eq!(weights("low=2,critical=70, high=20,normal=8"), Ok([70, 20, 8, 2]));
        for bad in ["", "70", "critical=70", "critical=1,critical=2,high=1,normal=1", "a=1,b=2"] {
            let wrong = weights(bad).unwrap_err();
            assert!(wrong.starts_with("give each of critical, high, normal, low once"), "{wrong}");
        }
        let wrong = weights("low=2,critical=x,high=20,normal=8").unwrap_err();
        assert_eq!(wrong, "critical: \"x\" is no number");
    }

    #[test]
    fn no_limit_is_a_word_of_its_own() {
        let kept = retention("failed=7d,completed=1h,cancelled=1h,dead_letter=forever").unwrap();
        assert_eq!(kept.dead_letter_seconds, None);
        assert_eq!(kept.completed_seconds.unwrap().0.as_secs(), 3_600);
        assert_eq!(aging("normal=never,high=never,critical=never"), Ok(AgingSettings::default()));
        let wrong = aging("normal=forever,high=1m,critical=1h").unwrap_err();
        assert!(wrong.ends_with("or never"), "{wrong}");
    }
}
