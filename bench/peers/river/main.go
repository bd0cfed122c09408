// River on the database that PGHOST and PGDATABASE name: single inserts, bulk inserts, a drain, and
// waits at 200 a second. Each figure is a line "name value". Arguments: tasks by single inserts,
// tasks in bulk (by the thousand), seconds of waits.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings of River's own benchmark; those that it has otherwise wait 100 ms between fetches.
const (
	workersMax    = 2000
	fetchCooldown = 2 * time.Millisecond
	fetchInterval = 20 * time.Millisecond
)

var (
	begun = time.Now()
	text  = strings.Repeat("x", 90)
	ctx   = context.Background()
)

// Task is what goes in: 100 bytes, and when it was sent where that matters.
type Task struct {
	Text string        `json:"text"`
	Sent time.Duration `json:"sent,omitempty"`
}

// Kind is what River asks for.
func (Task) Kind() string { return "noop" }

// Handler tells when a task came that says when it was sent.
type Handler struct {
	river.WorkerDefaults[Task]
	waits chan time.Duration
}

// Work does nothing else.
func (h *Handler) Work(_ context.Context, task *river.Job[Task]) error {
	if sent := task.Args.Sent; sent > 0 {
		h.waits <- time.Since(begun) - sent
	}
	return nil
}

func main() {
	singles, bulk, seconds := argument(1), argument(2), argument(3)
	config := must(pgxpool.ParseConfig(""))
	config.MaxConns = 64
	pool := must(pgxpool.NewWithConfig(ctx, config))
	driver := riverpgxv5.New(pool)
	migrator := must(rivermigrate.New(driver, nil))
	must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))

	handler := &Handler{waits: make(chan time.Duration, 200*seconds)}
	workers := river.NewWorkers()
	river.AddWorker(workers, handler)
	client := must(river.NewClient(driver, &river.Config{
		FetchCooldown:     fetchCooldown,
		FetchPollInterval: fetchInterval,
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workersMax}},
		Workers:           workers,
	}))

	rate("submit", singles, func() {
		concurrently(64, singles, func() { must(client.Insert(ctx, Task{Text: text}, nil)) })
	})
	must(pool.Exec(ctx, "TRUNCATE river_job"))
	rate("bulk", bulk, func() {
		concurrently(4, bulk/1000, func() {
			must(client.InsertManyFast(ctx, slices.Repeat([]river.InsertManyParams{{Args: Task{Text: text}}}, 1000)))
		})
	})
	// These events come once it is written down that a task is done.
	done, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: bulk, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	rate("drain", bulk, func() {
		check(client.Start(ctx))
		for range bulk {
			<-done
		}
	})
	cancel()
	waits(client, handler, 200*seconds)
	os.Exit(0)
}

// Sends 200 a second by the clock and tells how long it took until a handler began.
func waits(client *river.Client[pgx.Tx], handler *Handler, count int) {
	clock := time.NewTicker(5 * time.Millisecond)
	for range count {
		<-clock.C
		go func() { must(client.Insert(ctx, Task{Text: text, Sent: time.Since(begun)}, nil)) }()
	}
	times := make([]time.Duration, count)
	for n := range times {
		times[n] = <-handler.waits
	}
	slices.Sort(times)
	for _, at := range []int{50, 99} {
		fmt.Printf("pickup_p%d_ms %.3f\n", at, float64(times[(count-1)*at/100].Microseconds())/1000)
	}
}

// Tells how many a second were done.
func rate(name string, count int, work func()) {
	since := time.Now()
	work()
	fmt.Println(name, int(float64(count)/time.Since(since).Seconds()))
}

// Makes `count` calls, `width` of them at a time.
func concurrently(width, count int, call func()) {
	left := make(chan struct{}, count)
	for range count {
		left <- struct{}{}
	}
	close(left)
	var callers sync.WaitGroup
	for range width {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for range left {
				call()
			}
		}()
	}
	callers.Wait()
}

func argument(at int) int { return must(strconv.Atoi(os.Args[at])) }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
