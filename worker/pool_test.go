package worker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"toolsearch/subjects"
)

// held is a task that runs until it is let go.
type held struct {
	tenant string
	began  chan<- *held
	done   chan struct{}
	ran    func()
	no     *subjects.Error // what it was refused or abandoned with
}

func (h *held) run() {
	h.began <- h
	<-h.done
	if h.ran != nil {
		h.ran()
	}
}

func (h *held) refuse(err *subjects.Error)  { h.no = err }
func (h *held) abandon(err *subjects.Error) { h.no = err }

// workload submits held tasks to a pool.
type workload struct {
	p     *pool
	began chan *held
}

func newWorkload(o poolOptions) *workload {
	return &workload{p: newPool(o), began: make(chan *held, 1000)}
}

func (w *workload) submit(tenant string) (*held, *subjects.Error) {
	h := &held{tenant: tenant, began: w.began, done: make(chan struct{})}
	return h, w.p.submit(tenant, h)
}

// order lists the tenants of the tasks that have begun, once all is at rest.
func (w *workload) order() string {
	synctest.Wait()
	var b strings.Builder
	for {
		select {
		case h := <-w.began:
			b.WriteString(h.tenant)
		default:
			return b.String()
		}
	}
}

func TestPoolBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(poolOptions{places: 2, tenantPlaces: 2, depth: 3, tenantDepth: 3})
		var all []*held
		for i := range 5 {
			h, err := w.submit("a")
			if err != nil {
				t.Fatalf("task %d: %v", i, err)
			}
			all = append(all, h)
		}
		if got := w.order(); got != "aa" {
			t.Fatalf("began %q", got)
		}
		_, err := w.submit("b")
		if err == nil || err.Code != subjects.CodeOverloaded || err.RetryAfter <= 0 {
			t.Fatalf("a full pool says %v", err)
		}
		for _, h := range all {
			close(h.done)
		}
		if got := w.order(); got != "aaa" {
			t.Fatalf("then began %q", got)
		}
		<-w.p.close()
		if _, err := w.submit("a"); err == nil || err.Code != subjects.CodeUnavailable {
			t.Fatalf("a closed pool says %v", err)
		}
		if len(w.p.lanes) != 0 {
			t.Fatalf("%d tenants are remembered", len(w.p.lanes))
		}
	})
}

func TestPoolLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(poolOptions{places: 4, tenantPlaces: 3, depth: 4, tenantDepth: 3})
		var all []*held
		accepted := 0
		for range 20 {
			if h, err := w.submit("a"); err == nil {
				accepted++
				all = append(all, h)
			} else if err.Code != subjects.CodeOverloaded || !strings.Contains(err.Message, "tenant") {
				t.Fatalf("refused with %v", err)
			}
		}
		if accepted != 6 || w.order() != "aaa" {
			t.Fatalf("one tenant took %d places, want 3 running and 3 waiting", accepted)
		}
		for range 2 {
			h, err := w.submit("b")
			if err != nil {
				t.Fatalf("another tenant found no place: %v", err)
			}
			all = append(all, h)
		}
		if got := w.order(); got != "b" {
			t.Fatalf("began %q", got)
		}
		for _, h := range all {
			close(h.done)
		}
		<-w.p.close()
	})
}

func TestPoolTakesTenantsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(poolOptions{places: 1, tenantPlaces: 1, depth: 100, tenantDepth: 50})
		first, _ := w.submit("x")
		var all []*held
		for _, tenant := range strings.Split("aaaaaabbc", "") {
			h, err := w.submit(tenant)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h)
		}
		for _, h := range all {
			close(h.done)
		}
		close(first.done)
		if got := w.order(); got != "xabcabaaaa" {
			t.Fatalf("order %q, want tenants in turn", got)
		}
		<-w.p.close()
	})
}

func TestPoolHintGrowsWithTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(poolOptions{places: 1, tenantPlaces: 1, depth: 10, tenantDepth: 10})
		for range 100 { // the mean follows what runs take
			h, _ := w.submit("a")
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			close(h.done)
			synctest.Wait()
		}
		var all []*held
		for range 11 {
			h, err := w.submit("a")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h)
		}
		_, err := w.submit("a")
		if err == nil || err.RetryAfter < 800*time.Millisecond || err.RetryAfter > 1200*time.Millisecond {
			t.Fatalf("ten waiting tasks of 100 ms: %v", err)
		}
		for _, h := range all {
			close(h.done)
		}
		<-w.p.close()
	})
}

func TestPoolGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(poolOptions{places: 1, tenantPlaces: 1, depth: 10, tenantDepth: 10})
		run, _ := w.submit("a")
		var waiting []*held
		for range 3 {
			h, _ := w.submit("b")
			waiting = append(waiting, h)
		}
		synctest.Wait()
		idle := w.p.close()
		w.p.refuse()
		for _, h := range waiting {
			if h.no == nil || h.no.Code != subjects.CodeUnavailable {
				t.Fatalf("what waited was told %v", h.no)
			}
		}
		if run.no != nil {
			t.Fatalf("what runs was told %v", run.no)
		}
		w.p.abandon()
		if run.no == nil || run.no.Code != subjects.CodeUnavailable {
			t.Fatalf("what runs was told %v", run.no)
		}
		close(run.done)
		<-idle
	})
}

// Whatever comes and ends in whatever order: no bound is passed, nothing is lost or run twice, nobody waits while a
// place is free for him.
func TestPoolProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := poolOptions{places: rapid.IntRange(1, 5).Draw(t, "places"), depth: rapid.IntRange(1, 8).Draw(t, "depth")}
		o.tenantPlaces = rapid.IntRange(1, o.places).Draw(t, "tenantPlaces")
		o.tenantDepth = rapid.IntRange(1, o.depth).Draw(t, "tenantDepth")
		p := newPool(o)
		began := make(chan *held, 1000)
		var mu sync.Mutex
		ran := map[*held]int{}
		var open, running []*held
		accepted := 0
		settle := func() {
			// Every free place is taken by now: starting a task is synchronous, beginning it soon follows.
			for n, _ := p.load(); len(running) < n; n, _ = p.load() {
				running = append(running, <-began)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "end one") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				h := running[i]
				running = append(running[:i], running[i+1:]...)
				before := len(p.runningTasks())
				close(h.done)
				for p.isRunning(h) { // next runs right after
				}
				if after, waiting := p.load(); waiting > 0 && after < before && after == o.places {
					t.Fatalf("a freed place stayed empty")
				}
			} else {
				tenant := fmt.Sprintf("t%d", rapid.IntRange(0, 3).Draw(t, "tenant"))
				h := &held{tenant: tenant, began: began, done: make(chan struct{})}
				h.ran = func() {
					mu.Lock()
					defer mu.Unlock()
					ran[h]++
				}
				if err := p.submit(tenant, h); err == nil {
					accepted++
					open = append(open, h)
				}
			}
			settle()
			p.check(t)
		}
		idle := p.close()
		for len(running) > 0 {
			h := running[0]
			running = running[1:]
			close(h.done)
			for p.isRunning(h) {
			}
			settle()
		}
		<-idle
		for _, h := range open {
			if ran[h] != 1 {
				t.Fatalf("a task ran %d times", ran[h])
			}
		}
		if len(ran) != accepted {
			t.Fatalf("%d of %d accepted tasks ran", len(ran), accepted)
		}
	})
}

func (p *pool) runningTasks() []task {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []task
	for t := range p.running {
		out = append(out, t)
	}
	return out
}

func (p *pool) isRunning(t task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.running[t]
	return ok
}

// check looks at every bound.
func (p *pool) check(t *rapid.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running, waiting := 0, 0
	for _, l := range p.lanes {
		running += l.running
		waiting += len(l.waiting)
		if l.running > p.opts.tenantPlaces || len(l.waiting) > p.opts.tenantDepth {
			t.Fatalf("tenant %s has %d running and %d waiting", l.tenant, l.running, len(l.waiting))
		}
		if len(l.waiting) > 0 && l.running < p.opts.tenantPlaces && len(p.running) < p.opts.places {
			t.Fatalf("tenant %s waits while a place is free", l.tenant)
		}
		if l.running == 0 && len(l.waiting) == 0 {
			t.Fatalf("tenant %s is remembered for nothing", l.tenant)
		}
	}
	if running != len(p.running) || running > p.opts.places || waiting != p.waiting || waiting > p.opts.depth {
		t.Fatalf("%d running, %d waiting", running, waiting)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		part float64
		want int
	}{{1, 0.75, 1}, {2, 0.75, 1}, {4, 0.75, 3}, {64, 0.75, 48}, {64, 1, 63}, {64, 0.001, 1}} {
		if got := share(c.n, c.part); got != c.want {
			t.Errorf("share(%d, %v) = %d, want %d", c.n, c.part, got, c.want)
		}
	}
}
