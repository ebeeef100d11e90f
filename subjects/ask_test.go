package subjects_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
)

// What changes nothing is asked again where its reply died.
func TestAsksAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verb  subjects.Verb
		reply string
		ask   func(context.Context, *subjects.Session) error
	}{
		"assemble": {subjects.VerbAssemble, `{"scope":"x","tools":[]}`, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Assemble(ctx, &subjects.AssembleRequest{Tools: json.RawMessage(`[]`)})
			return err
		}},
		"search": {subjects.VerbSearch, `{"results": []}`, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Search(ctx, subjects.Handle("x"), json.RawMessage(`{"queries":["mail"]}`))
			return err
		}},
		"describe": {subjects.VerbDescribe, `{"tools": {}}`, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Describe(ctx, subjects.Handle("x"), json.RawMessage(`{"names":["mail"]}`))
			return err
		}},
		"operation": {subjects.VerbOperation, `{}`, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Operation(ctx)
			return err
		}},
		"accounts": {subjects.VerbAccounts, `{}`, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Accounts(ctx, "")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			w.on(tc.verb, func(r *request) ([]byte, error) {
				if r.N < 3 {
					return nil, nil
				}
				return []byte(tc.reply), nil
			})
			o := fast
			o.AskAgain = 10 * time.Millisecond
			if err := tc.ask(inTime(t), newSession(t, s, o)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A reply that went to a connection which is gone is not waited for.
func TestAsksAgainOnANewConnection(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	nc := connect(t, s)
	w := startWorker(t, s)
	w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
		if r.N == 1 {
			return nil, nc.ForceReconnect()
		}
		return []byte(`{"results": []}`), nil
	})
	o := fast
	o.AskAgain = time.Hour
	client, err := subjects.NewClient(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Session("acme", "s1").Search(inTime(t), subjects.Handle("x"), json.RawMessage(`{"queries":["mail"]}`)); err != nil {
		t.Error(err)
	}
}

// Asking again gives up nothing: the first question may still be answered, whatever becomes of a later one.
func TestFirstReplyCounts(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(*worker, *nats.Msg){
		"a later one gets none": func(*worker, *nats.Msg) {},
		"a later one is refused": func(w *worker, m *nats.Msg) {
			w.fail(m, &subjects.Error{Code: subjects.CodeOverloaded, Message: "full"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			asked := make(chan *nats.Msg, 16)
			if _, err := w.nc.ChanSubscribe(subjects.DefaultRoot.Requests(subjects.VerbSearch), asked); err != nil {
				t.Fatal(err)
			}
			if err := w.nc.Flush(); err != nil {
				t.Fatal(err)
			}
			go func() {
				first := <-asked
				second := <-asked
				later(w, second)
				first.Respond([]byte(`{"results": [{"query": "the first"}]}`)) //nolint:errcheck // the test waits for the answer
			}()
			o := fast
			o.AskAgain, o.Retries = 10*time.Millisecond, -1
			found, err := newSession(t, s, o).Search(inTime(t), subjects.Handle("x"), json.RawMessage(`{"queries":["mail"]}`))
			if err != nil || len(found.Results) != 1 || found.Results[0].Query != "the first" {
				t.Errorf("got %+v, %v", found, err)
			}
		})
	}
}

// What has an effect each time is asked once, however often what has none is asked again meanwhile.
func TestAsksOnceForAnEffect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verb subjects.Verb
		ask  func(context.Context, *subjects.Session) error
	}{
		"disconnect": {subjects.VerbDisconnect, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Disconnect(ctx, "c-1")
			return err
		}},
		"answer": {subjects.VerbAnswer, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Answer(ctx, subjects.AnswerRequest{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			effects, reads := startWorker(t, s), startWorker(t, s)
			begun := make(chan struct{}, 16)
			effects.on(tc.verb, func(*request) ([]byte, error) { begun <- struct{}{}; return nil, nil })
			reads.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
				if r.N < 5 {
					return nil, nil
				}
				return []byte(`{"results": []}`), nil
			})
			o := fast
			o.AskAgain = time.Millisecond
			session := newSession(t, s, o)
			ctx, cancel := context.WithCancel(inTime(t))
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- tc.ask(ctx, session) }()
			<-begun
			if _, err := session.Search(inTime(t), subjects.Handle("x"), nil); err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if n := effects.asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// The longest wait there is means that a question is put once.
func TestAskAgainNever(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	begun := make(chan struct{}, 16)
	w.on(subjects.VerbSearch, func(*request) ([]byte, error) { begun <- struct{}{}; return nil, nil })
	w.on(subjects.VerbDescribe, func(*request) ([]byte, error) { return []byte(`{"tools": {}}`), nil })
	o := fast
	o.AskAgain = math.MaxInt64
	session := newSession(t, s, o)
	ctx, cancel := context.WithCancel(inTime(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := session.Search(ctx, subjects.Handle("x"), nil)
		ended <- err
	}()
	<-begun
	for range 20 { // time in which it would be put again
		if _, err := session.Describe(inTime(t), subjects.Handle("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(begun) != 0 {
		t.Errorf("asked %d times more", len(begun))
	}
}
