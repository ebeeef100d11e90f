package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
)

// asNode, set to a JSON [clusterNode], makes the test binary be one server of a NATS cluster.
const asNode = "RUN_AS_NATS_NODE"

// clusterNode is one server of a cluster on the loopback.
type clusterNode struct {
	Name               string
	Dir                string
	Port, Route, Watch int
	Routes             []string
}

// serveNode runs a server until the process is killed.
func serveNode(text string) error {
	var n clusterNode
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, HTTPHost: "127.0.0.1", HTTPPort: n.Watch,
		JetStream: true, StoreDir: n.Dir, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "storm", Host: "127.0.0.1", Port: n.Route},
	}
	for _, r := range n.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// nodes lays out n servers on free ports.
func nodes(t *testing.T, n int) []clusterNode {
	t.Helper()
	out := make([]clusterNode, n)
	var routes []string
	for i := range out {
		out[i] = clusterNode{Name: fmt.Sprint("node-", i), Dir: filepath.Join(t.TempDir(), fmt.Sprint(i)),
			Port: freePort(t), Route: freePort(t), Watch: freePort(t)}
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", out[i].Route))
	}
	for i := range out {
		out[i].Routes = routes
	}
	return out
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// healthy waits until a server has caught up with its streams.
func (n clusterNode) healthy(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", n.Watch), nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy: %w", n.Name, context.Cause(ctx))
		}
	}
}

// TestChaosCluster kills the servers of a three-node cluster in turn, each healed before the next, while workers run
// batches through a gateway that fails.
func TestChaosCluster(t *testing.T) {
	// A new leader takes seconds to be found, so servers are killed less often than workers.
	s := form(storm{sessions: 3, batches: 6, kills: 1, most: 1, every: time.Second},
		storm{sessions: 20, batches: 300, kills: 10, every: 5 * time.Second})
	layout := nodes(t, 3)
	g := stormGateway(t)
	cluster := newCrew(t, len(layout), func(i int) (*process, error) {
		text, err := json.Marshal(layout[i])
		if err != nil {
			return nil, err
		}
		return start(t, []string{asNode + "=" + string(text)}, "nats", layout[i].Name)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	urls := make([]string, len(layout))
	for i, n := range layout {
		urls[i] = fmt.Sprintf("nats://127.0.0.1:%d", n.Port)
		if err := n.healthy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	bus := strings.Join(urls, ",")
	workers := newCrew(t, 2, func(i int) (*process, error) {
		return start(t, stormEnv, "worker", "--nats", bus, "--replicas", "3", "--gateway", g.URL(), "--name", fmt.Sprint("worker-", i), "--log-level", "error")
	})
	s.run(t, bus, g, func(stop context.Context) int {
		var load sync.WaitGroup
		for i := range layout {
			// One session for each server as the first that it tries, so that one of them loses its server each time.
			load.Go(func() { searchThrough(t, stop, append(urls[i:len(urls):len(urls)], urls[:i]...)) })
		}
		defer load.Wait()
		return cluster.harass(stop, s, func(i int) {
			// Without a majority nothing moves, so the next server goes only when this one is back.
			if err := layout[i].healthy(ctx); err != nil {
				t.Error(err)
			}
		})
	}, workers)
}

// searchThrough searches with a client as anybody makes it, until stop is done. No search may fail.
func searchThrough(t *testing.T, stop context.Context, urls []string) {
	a, err := newAgent(t.Context(), strings.Join(urls, ","), "tenant-0", "searcher", nats.DontRandomize())
	if err != nil {
		t.Error(err)
		return
	}
	defer a.nc.Close()
	client, err := subjects.NewClient(a.nc, subjects.ClientOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	session := client.Session(a.Tenant(), a.ID())
	asked, failed, slowest := 0, 0, time.Duration(0)
	for ; stop.Err() == nil; asked++ {
		began := time.Now()
		if _, err := session.Search(t.Context(), a.scope, json.RawMessage(`{"queries": ["send email"]}`)); err != nil {
			failed++
			t.Errorf("search: %v", err)
		}
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("%d searches, %d failed, the slowest after %.1f s", asked, failed, slowest.Seconds())
}

// nodeFromEnv runs this process as a server of a cluster, if it was started as one.
func nodeFromEnv() {
	text := os.Getenv(asNode)
	if text == "" {
		return
	}
	if err := serveNode(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
