// What the loads in JavaScript share: how a rate and a wait are measured and told, as lines
// "name value".
export const payload = { text: "x".repeat(90) };

/** Tells how many a second `work` did. */
export async function rate(name, count, work) {
  const begun = performance.now();
  await work();
  console.log(name, Math.round(count / ((performance.now() - begun) / 1000)));
}

/** Makes `count` calls, `width` of them at a time. */
export async function concurrently(width, count, call) {
  let sent = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (sent++ < count) await call();
  }));
}

/** A promise, and the function that fulfils it once it was called `count` times. */
export function countdown(count) {
  let done;
  const finished = new Promise((resolve) => (done = resolve));
  return { finished, one: () => { if (--count === 0) done(); } };
}

/** Sends 200 a second by the clock; `arrived` wants each payload as its handler begins. */
export function waits(seconds, send) {
  const count = 200 * seconds;
  const all = countdown(count);
  const times = [];
  const arrived = ({ sent }) => {
    times.push(performance.now() - sent);
    all.one();
  };
  const go = async () => {
    const begun = performance.now();
    for (let n = 0; n < count; n++) {
      const early = begun + n * 5 - performance.now();
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      send({ ...payload, sent: performance.now() });
    }
    await all.finished;
    times.sort((a, b) => a - b);
    const at = (share) => times[Math.floor((count - 1) * share)].toFixed(3);
    console.log("pickup_p50_ms", at(0.5));
    console.log("pickup_p99_ms", at(0.99));
  };
  return { arrived, go };
}
