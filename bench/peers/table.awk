# Medians and ratios of what peers/round told: lines "kind who name value".
function median(list,   n, a, i, j, t) {
  n = split(list, a, " ")
  for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j-1] + 0 > a[j] + 0; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
  return a[int((n + 1) / 2)]
}
{ seen[$1 " " $2 " " $3] = seen[$1 " " $2 " " $3] " " $4 }
function row(kind, what, own, peer, target,   a, b) {
  a = median(seen[kind " " own]); b = median(seen[kind " peer " peer])
  if (a == "" || b == "") return
  printf "| %s | %s | %.1fk/s | %.1fk/s | %.1f × | ≥ %s × | %s |\n", kind, what, a / 1000, b / 1000, a / b, target, (a / b >= target ? "met" : "**missed**")
}
END {
  print "| on | what | Tasklane | peer | ratio | target | |"
  print "|---|---|---|---|---|---|---|"
  row("redis", "store: submit by 25, peer: 64 concurrent adds", "store submit_by_25", "submit", 2)
  row("redis", "store: submit by 1000, peer: bulk", "store submit_by_1000", "bulk", 8)
  row("redis", "store: drain by 100", "store drain_by_100", "drain", 3.5)
  row("redis", "HTTP: submit, 64 connections", "http submit", "submit", 1.5)
  row("redis", "HTTP: drain by 100", "http drain", "drain", 3)
  row("postgres", "store: submit by 25, peer: 64 concurrent adds", "store submit_by_25", "submit", 30)
  row("postgres", "store: submit by 1000, peer: bulk", "store submit_by_1000", "bulk", 3.5)
  row("postgres", "store: drain by 100, peer: batched", "store drain_by_100", "drain", 2)
  row("postgres", "HTTP: submit, 64 connections", "http submit", "submit", 15)
  row("postgres", "HTTP: drain by 100, peer: batched", "http drain", "drain", 1.5)
  if (seen["redis peer bytes"] != "") printf "\nA queued task takes %d bytes of Redis in BullMQ; ours are measured by `tests/store/memory.rs`.\n", median(seen["redis peer bytes"])
}
