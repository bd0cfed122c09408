// BullMQ on the Redis at $SOCKET: single adds, bulk adds, what a queued task takes, a drain, and
// waits at 200 a second. Arguments: tasks by adds, tasks in bulk (by the thousand), seconds of
// waits.
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";
import { concurrently, countdown, payload, rate, waits } from "./measure.mjs";

const [singles, bulk, seconds] = process.argv.slice(2).map(Number);
const connect = () => new Redis(process.env.SOCKET, { maxRetriesPerRequest: null });
const connection = connect();
const options = { removeOnComplete: true };

async function memory() {
  const told = await connection.info("memory");
  return Number(told.match(/used_memory:(\d+)/)[1]);
}

function work(queue, handle) {
  return new Worker(queue.name, handle, { connection: connect(), concurrency: 100 });
}

const single = new Queue("singles", { connection });
await rate("submit", singles, () => concurrently(64, singles, () => single.add("a", payload, options)));
await single.obliterate({ force: true });

const large = new Queue("bulk", { connection });
const before = await memory();
await rate("bulk", bulk, () => concurrently(4, bulk / 1000, () =>
  large.addBulk(Array.from({ length: 1000 }, () => ({ name: "a", data: payload, opts: options })))));
console.log("bytes", Math.round((await memory() - before) / bulk));
await rate("drain", bulk, async () => {
  const all = countdown(bulk);
  const worker = work(large, async () => all.one());
  await all.finished;
  await worker.close();
});

const timed = new Queue("timed", { connection });
const wait = waits(seconds, (data) => timed.add("a", data, options));
const worker = work(timed, async (task) => wait.arrived(task.data));
await worker.waitUntilReady();
await wait.go();
process.exit(0);
