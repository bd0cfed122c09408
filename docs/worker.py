"""A worker in plain Python: python3 worker.py http://127.0.0.1:7170"""
import json, os, sys, threading, time, urllib.error, urllib.request

SERVER = sys.argv[1]
HEADERS = {"content-type": "application/json"}
if "TASKLANE_API_KEY" in os.environ:
    HEADERS["authorization"] = "Bearer " + os.environ["TASKLANE_API_KEY"]

def call(path, body):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)

def handle(task):
    if task["type"] == "greet":
        return {"greeting": "hello " + task["payload"]["name"]}

def attempt(task):
    report = {"task_id": task["id"], "lease_token": task["lease_token"]}
    try:
        return report | {"status": "completed", "result": handle(task)}
    except Exception as error:
        return report | {"status": "failed", "error": {"message": repr(error)}}

def work():
    worker = call("/internal/workers/register", {"types": ["greet"], "capacity": 1})
    path, over = "/internal/workers/" + worker["worker_id"], threading.Event()
    def renew():
        while not over.wait(worker["heartbeat_interval_ms"] / 1000):
            try: call(path + "/heartbeat", {})
            except OSError: pass  # the next one may get through
    threading.Thread(target=renew, daemon=True).start()
    poll, reports = {"available_capacity": 1, "wait_ms": 30000}, []
    try:
        while True:  # results go out and tasks come in, in one round trip
            answer = call(path + "/result", {"results": reports, "poll": poll})
            if answer["directive"] == "terminate": return  # register again
            reports = [attempt(task) for task in answer["tasks"]]
    finally: over.set()

while True:
    try: work()
    except OSError as error: print(error, file=sys.stderr); time.sleep(1)
