// graphile-worker on the database that PGHOST and PGDATABASE name: single adds, bulk adds, a drain in
// its batched mode. Each figure is a line "name value". Arguments: tasks by adds, tasks in bulk.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [singles, bulk] = process.argv.slice(2).map(Number);
const pool = new pg.Pool({ max: 64 });
const payload = { text: "x".repeat(90) };
// It would tell of every task.
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

async function rate(name, count, work) {
  const begun = performance.now();
  await work();
  console.log(name, Math.round(count / ((performance.now() - begun) / 1000)));
}

await rate("submit", singles, async () => {
  let sent = 0;
  await Promise.all(Array.from({ length: 64 }, async () => {
    while (sent++ < singles) await utils.addJob("a", payload);
  }));
});
await pool.query("DELETE FROM graphile_worker._private_jobs");
await rate("bulk", bulk, async () => {
  for (let sent = 0; sent < bulk; sent += 1000) {
    await utils.addJobs(Array.from({ length: 1000 }, () => ({ identifier: "a", payload })));
  }
});
await rate("drain", bulk, async () => {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const runner = await run({
    pgPool: pool,
    logger,
    taskList: { a: async () => { if (++done === bulk) finish(); } },
    preset: { worker: {
      concurrentJobs: 24, pollInterval: 1000, localQueue: { size: 500 },
      completeJobBatchDelay: 0, failJobBatchDelay: 0,
    } },
  });
  await finished;
  await runner.stop();
});
process.exit(0);
