package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

// TestChaosRollingRestart restarts three workers one after the other, as an upgrade does, while sessions search and
// run batches. No search fails, although none is tried again, and no batch is lost.
func TestChaosRollingRestart(t *testing.T) {
	s := form(storm{sessions: 2, kills: 3}, storm{sessions: 8, kills: 30})
	bus, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	g := stormGateway(t)
	crew := newCrew(t, 3, func(i int) (*process, error) {
		p, err := start(t, stormEnv, "worker", "--nats", bus.ClientURL(), "--gateway", g.URL(), "--name", fmt.Sprint("worker-", i), "--log-json")
		if err == nil {
			readyAt(t, p)
		}
		return p, err
	})

	var stop atomic.Bool
	var load sync.WaitGroup
	var asked, failed atomic.Int64
	var mu sync.Mutex
	var all []*sent
	for i := range s.sessions {
		a, err := newAgent(t.Context(), bus.ClientURL(), fmt.Sprintf("tenant-%d", i%3), fmt.Sprintf("session-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		defer a.nc.Close()
		once := strictly(t, a.nc, a.Tenant(), a.ID())
		load.Go(func() {
			for !stop.Load() {
				asked.Add(1)
				if _, err := once.Search(t.Context(), a.scope, json.RawMessage(`{"queries": ["send email"]}`)); err != nil {
					failed.Add(1)
					t.Errorf("search: %v", err)
				}
			}
		})
		load.Go(func() {
			for n := 0; !stop.Load(); n++ {
				b := a.send(t.Context(), t, fmt.Sprintf("roll-%d-%d", i, n))
				mu.Lock()
				all = append(all, b)
				mu.Unlock()
			}
		})
	}

	began := time.Now()
	for n := range s.kills {
		p := crew.members[n%3]
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(); code != 0 {
			t.Errorf("a worker that was told to end ends with %d:\n%s", code, p.err)
		}
		if err := crew.replace(n % 3); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	load.Wait()

	for _, b := range all {
		checkReply(t, b)
	}
	checkEffects(t, all, g.Effects())
	checkStreams(t.Context(), t, bus.ClientURL(), all)
	t.Logf("%d restarts in %.1f s: %d searches, %d failed; %d batches", s.kills, time.Since(began).Seconds(), asked.Load(), failed.Load(), len(all))
	if t.Failed() {
		t.Log(crew.said())
	}
}

// strictly is a session's client that tries nothing again.
func strictly(t *testing.T, nc *nats.Conn, tenant, session string) *subjects.Session {
	t.Helper()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{Retries: -1, AskAgain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return client.Session(tenant, session)
}
