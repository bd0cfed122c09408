-- One submission a request, as `bench/http` sends it otherwise: a payload of 100 bytes. For wrk.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"priority":"high","queue":"bench","type":"bench","payload":{"data":"' .. string.rep("x", 89) .. '"}}'
