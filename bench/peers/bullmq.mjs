// BullMQ on the Redis at $SOCKET: single adds, bulk adds, a drain, and what a queued task takes.
// Each figure is a line "name value". Arguments: tasks by adds, tasks in bulk.
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";

const [singles, bulk] = process.argv.slice(2).map(Number);
const connect = () => new Redis(process.env.SOCKET, { maxRetriesPerRequest: null });
const connection = connect();
const payload = { text: "x".repeat(90) };
const options = { removeOnComplete: true };

async function rate(name, count, work) {
  const begun = performance.now();
  await work();
  console.log(name, Math.round(count / ((performance.now() - begun) / 1000)));
}

async function memory() {
  const told = await connection.info("memory");
  return Number(told.match(/used_memory:(\d+)/)[1]);
}

async function drain(queue, count) {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker(queue.name, async () => { if (++done === count) finish(); }, {
    connection: connect(), concurrency: 100,
  });
  await finished;
  await worker.close();
}

const queue = new Queue("singles", { connection });
await rate("submit", singles, async () => {
  let sent = 0;
  await Promise.all(Array.from({ length: 64 }, async () => {
    while (sent++ < singles) await queue.add("a", payload, options);
  }));
});
await queue.obliterate({ force: true });
const large = new Queue("bulk", { connection });
const before = await memory();
await rate("bulk", bulk, async () => {
  for (let sent = 0; sent < bulk; sent += 1000) {
    await large.addBulk(Array.from({ length: 1000 }, () => ({ name: "a", data: payload, opts: options })));
  }
});
console.log("bytes", Math.round((await memory() - before) / bulk));
await rate("drain", bulk, () => drain(large, bulk));
process.exit(0);
