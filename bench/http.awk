# From "backlog name figure value" to a table with medians and whether each target is met.
function median(list,   n, a, i, j, t) {
  n = split(list, a, " ")
  for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j-1] + 0 > a[j] + 0; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
  return a[int((n + 1) / 2)]
}
# The least and the most of all rounds, told in this format, with a unit behind them.
function spread(list, format, unit,   n, a, i, least, most) {
  n = split(list, a, " ")
  least = most = a[1] + 0
  for (i = 2; i <= n; i++) { if (a[i] + 0 < least) least = a[i] + 0; if (a[i] + 0 > most) most = a[i] + 0 }
  return sprintf(format, least) "–" sprintf(format, most) unit
}
function thousand(list,   n, a, i, all) {
  n = split(list, a, " ")
  for (i = 1; i <= n; i++) all = all " " a[i] / 1000
  return all
}
function largest(list,   n, a, i, most) {
  n = split(list, a, " ")
  for (i = 1; i <= n; i++) if (a[i] + 0 > most) most = a[i] + 0
  return most + 0
}
# Ratios round by round, because rounds differ more than what is compared within one.
function ratios(over, under,   n, a, b, i, list) {
  n = split(over, a, " "); split(under, b, " ")
  for (i = 1; i <= n; i++) if (b[i] > 0) list = list " " a[i] / b[i]
  return list
}
function figure(backlog, name, what) { return figures[backlog " " name " " what] }
# Figures of calls that were refused say nothing about calls that are taken.
function verdict(backlog, name, met,   refused) {
  if (total(figure(backlog, name, "tasks")) == 0) return "**not valid: nothing was done**"
  refused = total(figure(backlog, name, "refused")) + total(figure(backlog, name, "wrong"))
  return refused > 0 ? "**not valid: " refused " refused or wrong**" : met ? "met" : "**missed**"
}
function total(list,   n, a, i, sum) {
  n = split(list, a, " ")
  for (i = 1; i <= n; i++) sum += a[i]
  return sum + 0
}
function thousands(n) { return sprintf("%.1fk", n / 1000) }
# A rate with a least value; with the longest call beside it.
function rate(backlog, label, name, least,   got) {
  if (figure(backlog, name, "per_second") == "") { row(backlog, label, "not measured", "", thousands(least), "–"); return }
  got = median(figure(backlog, name, "per_second"))
  row(backlog, label, thousands(got) "/s; " cost(backlog, name) ", p99 " median(figure(backlog, name, "p99_ms")) " ms, longest " median(figure(backlog, name, "longest_ms")) " ms", rates(figure(backlog, name, "per_second")), "≥ " thousands(least) "/s", verdict(backlog, name, got >= least))
}
# A wait with a greatest value, in ms.
function wait(backlog, label, name, what, most,   got) {
  if (figure(backlog, name, what) == "") { row(backlog, label, "not measured", "", "≤ " most " ms", "–"); return }
  got = what == "longest_ms" ? largest(figure(backlog, name, what)) : median(figure(backlog, name, what))
  row(backlog, label, got " ms", spread(figure(backlog, name, what), "%s", " ms"), "≤ " most " ms", verdict(backlog, name, got <= most))
}
function beside_echo(backlog, label, name,   own, echo, ratio) {
  own = figure(backlog, name, "per_second"); echo = figure(backlog, "echo_" name, "per_second")
  if (own == "") { row(backlog, label, "not measured", "", "≥ 0.6 × echo", "–"); return }
  ratio = median(ratios(own, echo))
  row(backlog, label, thousands(median(own)) "/s, echo " thousands(median(echo)) "/s: " sprintf("%.2f", ratio) " ×", rates(own) ", " times(ratios(own, echo)), "≥ 0.6 × echo", verdict(backlog, name, ratio >= 0.6))
}
# By our own generator, beside the limit of anything that answers once it is on disk: docs/adr/0012-echo.md.
function beside_synced(backlog, label, name,   own, ratio) {
  own = figure(backlog, name, "per_second")
  if (own == "") { row(backlog, label, "not measured", "", "≥ 0.7 × synced echo", "–"); return }
  ratio = median(ratios(own, figure(backlog, "synced_" name, "per_second")))
  row(backlog, label, thousands(median(own)) "/s: " sprintf("%.2f", ratio) " × synced echo; " sprintf("%.2f", median(ratios(own, figure(backlog, "echo_" name, "per_second")))) " × echo with " thousands(median(figure(backlog, "echo_" name, "per_second"))) "/s; " cost(backlog, name) ", echo " cost(backlog, "echo_" name), rates(own) ", " times(ratios(own, figure(backlog, "synced_" name, "per_second"))), "≥ 0.7 × synced echo", verdict(backlog, name, ratio >= 0.7))
}
# What that limit is.
function synced(backlog, label, name,   taken) {
  taken = figure(backlog, "synced_" name, "per_second")
  row(backlog, label, thousands(median(taken)) "/s: " sprintf("%.2f", median(ratios(taken, figure(backlog, "echo_" name, "per_second")))) " × echo; longest call of all rounds " largest(figure(backlog, "synced_" name, "longest_ms")) " ms", rates(taken), "", "")
}
function rates(list) { return spread(thousand(list), "%.1fk", "/s") }
function times(list) { return spread(list, "%.2f", " ×") }
# Processor time of the server: what other processes on the machine change least.
function cost(backlog, name) { return median(figure(backlog, name, "server_us_each")) " µs of server each" }
function row(backlog, label, got, between, target, met) { printf "| %s | %s | %s | %s | %s | %s |\n", backlog == 0 ? "nothing" : backlog / 1000000 " M", label, got, between, target, met }
{
  if (!($1 in known)) { known[$1] = 1; backlogs[++count] = $1 }
  figures[$1 " " $2 " " $3] = figures[$1 " " $2 " " $3] " " $4
}
END {
  print "| queued | what | measured | least–most | target | |"
  print "|---|---|---|---|---|---|"
  for (i = 1; i <= count; i++) {
    b = backlogs[i]
    beside_echo(b, "1. submit, one a request, 64 connections, by wrk", "wrk")
    beside_synced(b, "1. the same by our own generator", "submit_by_1")
    wait(b, "1. submit, p99 of a call", "submit_by_1", "p99_ms", 5)
    rate(b, "2. submit by 100, 4 connections", "submit_by_100", 220000)
    rate(b, "2. submit by 1000, 4 connections", "submit_by_1000", 350000)
    rate(b, "3. drain by 100, 4 workers", "drain_by_100", 120000)
    rate(b, "3. drain by 10, 16 workers", "drain_by_10", 60000)
    rate(b, "3. drain by 1, 64 workers", "drain_by_1", 30000)
    wait(b, "4. pick-up at 200/s, p50", "pickup_at_200/s", "p50_ms", 0.7)
    wait(b, "4. pick-up at 200/s, p99", "pickup_at_200/s", "p99_ms", 2)
    wait(b, "4. event to its reader at 200/s, p99", "read_events_at_200/s", "p99_ms", 10)
    wait(b, "4. event to its reader on a WebSocket, p99", "socket_events_at_200/s", "p99_ms", 10)
    wait(b, "4. due task to its worker, from its submission a second before, p50", "due_pickup_at_200/s", "p50_ms", 1.5)
    wait(b, "4. submit beside drain, longest call of all rounds", "end-to-end_submit_by_1", "longest_ms", 30)
    wait(b, "4. drain beside submit, longest call of all rounds", "end-to-end_drain_by_10", "longest_ms", 30)
    row(b, "echo, longest call of all rounds: what the machine itself does", largest(figure(b, "echo_submit_by_1", "longest_ms")) " ms", spread(figure(b, "echo_submit_by_1", "longest_ms"), "%s", " ms"), "", "")
    synced(b, "synced echo: one that only writes to a log and syncs it, what the disk itself does", "submit_by_1")
  }
}
