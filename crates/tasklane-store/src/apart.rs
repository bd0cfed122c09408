//! Units that are carried out together as long as none of them is in the way.

use std::collections::VecDeque;

use crate::error::StoreError;

/// Carries out units in one call; where one of them obstructs it, in halves, so that in the end it
/// stands alone. Gives each unit its own verdict, in order.
pub async fn apart<U, T, F>(units: Vec<U>, call: impl Fn(Vec<U>) -> F) -> Vec<Result<T, StoreError>>
where
    U: Clone,
    F: Future<Output = Result<Vec<T>, StoreError>>,
{
    let mut verdicts = Vec::with_capacity(units.len());
    let mut parts = VecDeque::from([units]);
    while let Some(mut part) = parts.pop_front() {
        let count = part.len();
        if count < 2 {
            verdicts.extend(told(call(part).await, count));
            continue;
        }
        match call(part.clone()).await {
            Err(StoreError::Obstructed(_)) => {
                let second = part.split_off(count / 2);
                parts.push_front(second);
                parts.push_front(part);
            }
            answer => verdicts.extend(told(answer, count)),
        }
    }
    verdicts
}

fn told<T>(answer: Result<Vec<T>, StoreError>, count: usize) -> Vec<Result<T, StoreError>> {
    match answer {
        Ok(verdicts) => verdicts.into_iter().map(Ok).collect(),
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::conformance::block_on;

    /// Doubles numbers, unless one of them is 13.
    async fn double(units: Vec<u32>, calls: &Cell<u32>) -> Result<Vec<u32>, StoreError> {
        calls.set(calls.get() + 1);
        match units.contains(&13) {
            true if units.len() > 1 => Err(StoreError::Obstructed("13 is in the way".into())),
            true => Err(StoreError::Overloaded("13 is alone".into())),
            false => Ok(units.iter().map(|unit| unit * 2).collect()),
        }
    }

    #[test]
    fn only_the_culprit_fails() {
        let calls = Cell::new(0);
        let verdicts = block_on(apart((0..100).collect(), |units| double(units, &calls)));
        for (unit, verdict) in verdicts.iter().enumerate() {
            match verdict {
                Ok(doubled) => assert_eq!(*doubled as usize, unit * 2),
                Err(error) => {
                    assert_eq!(unit, 13);
                    assert_eq!(*error, StoreError::Overloaded("13 is alone".into()));
                }
            }
        }
        assert_eq!(verdicts.len(), 100);
        // Two for each time that the hundred can be halved, and the first.
        assert!(calls.get() <= 15, "{}", calls.get());
    }

    #[test]
    fn units_that_nobody_obstructs_share_one_call() {
        let calls = Cell::new(0);
        let verdicts = block_on(apart((20..90).collect(), |units| double(units, &calls)));
        assert_eq!((verdicts.len(), calls.get()), (70, 1));
        assert!(verdicts.iter().all(Result::is_ok));
    }

    #[test]
    fn an_error_that_is_not_of_one_unit_is_everybodys() {
        let verdicts: Vec<Result<u32, _>> = block_on(apart(vec![1, 2, 3], async |_| {
            Err(StoreError::OutcomeUnknown("lost".into()))
        }));
        assert_eq!(verdicts, vec![Err(StoreError::OutcomeUnknown("lost".into())); 3]);
    }
}
