// graphile-worker on the database that PGHOST and PGDATABASE name: single adds, bulk adds, a drain in
// its batched mode, and waits at 200 a second. Arguments: tasks by adds, tasks in bulk (by the
// thousand), seconds of waits.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { concurrently, countdown, payload, rate, waits } from "./measure.mjs";

const [singles, bulk, seconds] = process.argv.slice(2).map(Number);
const pool = new pg.Pool({ max: 64 });
// It asks for these.
pool.on("error", console.error);
pool.on("connect", (client) => client.on("error", console.error));
// It would tell of every task.
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();
// Batches of what is fetched and of what is done make it ten times as fast, and let a task wait.
const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

const work = (handle, settings) => run({
  pgPool: pool,
  logger,
  taskList: { a: handle },
  preset: { worker: { concurrentJobs: 24, pollInterval: 1000, ...settings } },
});

await rate("submit", singles, () => concurrently(64, singles, () => utils.addJob("a", payload)));
await pool.query("TRUNCATE graphile_worker._private_jobs");
await rate("bulk", bulk, () => concurrently(4, bulk / 1000, () =>
  utils.addJobs(Array.from({ length: 1000 }, () => ({ identifier: "a", payload })))));
await rate("drain", bulk, async () => {
  const all = countdown(bulk);
  const runner = await work(async () => all.one(), batched);
  await all.finished;
  await runner.stop();
});

const wait = waits(seconds, (data) => utils.addJob("a", data));
await work(async (data) => wait.arrived(data), {});
await wait.go();
process.exit(0);
