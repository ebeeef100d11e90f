package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// batch is tool_call's arguments for n emails.
func batch(n int, subject string) json.RawMessage {
	type call struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	var calls []call
	for i := range n {
		calls = append(calls, call{mailTool, map[string]string{"to": fmt.Sprintf("guest%d@example.com", i), "subject": subject}})
	}
	p, err := subjects.Marshal(map[string]any{"calls": calls})
	if err != nil {
		panic(err) // texts only
	}
	return p
}

// pace lets a reader see that entries settle one after the other.
const pace = 120 * time.Millisecond

// paced slows the gateway's execute down, and holds one request, counted from 0, after its effect until the gate opens.
func (s *stage) paced(held int) *gatewaytest.Gate {
	gate := gatewaytest.NewGate()
	s.gateway.ClearFaults()
	s.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", AfterEffect: true, Gate: gate, Skip: held, Times: 1})
	s.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Delay: pace})
	return gate
}

func (s *stage) stopped(ctx context.Context) error {
	s.say.scene("A batch of five, stopped after two")
	s.say.text("Connector calls run on the bus, one after the other, each result an event as soon as it is there. While the second is on its " +
		"way the user presses stop: it is reported with what it did, and the rest stays unsent.")
	gate := s.paced(1)
	defer gate.Open()
	before := len(s.gateway.Effects())
	s.say.model("tool_call", "5 x "+mailTool)
	got, err := s.play(ctx, "stopped", batch(5, "Party"), func(ctx context.Context) error {
		select {
		case <-gate.Reached():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		ack, err := s.agent.StopCall(ctx, "stopped", "user pressed stop")
		if err != nil {
			return err
		}
		s.say.line(s.Out.Dim("agent  > ") + s.Out.Warn("stop") + fmt.Sprintf(" (kept by the server as message %d of the stream of calls)", ack.Seq))
		gate.Open()
		return nil
	})
	if err != nil {
		return err
	}
	effects := len(s.gateway.Effects()) - before
	if got.SuccessCount != 2 || got.ErrorCount != 3 || effects != 2 {
		return unexpected("the stopped batch", fmt.Sprintf("%+v, %d effects", *got, effects))
	}
	s.say.text(fmt.Sprintf("summary: %d of %d ran, %d INTERRUPTED; the gateway saw %d emails.", got.SuccessCount, got.TotalCount, got.ErrorCount, effects))
	return nil
}

// play calls a batch and tells its events, with other things happening beside it.
func (s *stage) play(ctx context.Context, id string, args json.RawMessage, beside func(context.Context) error) (*subjects.BatchReply, error) {
	g, ctx := errgroup.WithContext(ctx)
	var got *subjects.Called
	g.Go(func() (err error) {
		got, err = s.agent.Call(ctx, subjects.CallRequest{Scope: s.scope, CallID: id, Arguments: args}, s.say.event)
		return err
	})
	g.Go(func() error { return beside(ctx) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if got.Batch == nil {
		return nil, unexpected("the batch's reply", string(got.Raw))
	}
	return got.Batch, nil
}

func (s *stage) killed(ctx context.Context) error {
	s.say.scene("A batch whose worker is killed")
	s.say.text("Two workers, now as processes of their own. While the third email is on its way (it was sent; its answer was not heard) the " +
		"worker that runs the batch is killed with SIGKILL. The other one takes over and asks again under the same key.")
	if err := s.node.Drain(ctx); err != nil {
		return err
	}
	workers, err := s.startWorkers(ctx, 2)
	defer func() {
		for _, w := range workers {
			w.end()
		}
	}()
	if err != nil {
		return err
	}
	gate := s.paced(2)
	defer gate.Open()
	effects, requests := len(s.gateway.Effects()), len(s.gateway.Requests())
	s.say.model("tool_call", "5 x "+mailTool)
	got, err := s.play(ctx, "survives", batch(5, "Invitation"), func(ctx context.Context) error {
		select {
		case <-gate.Reached():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w := s.sender(workers)
		if w == nil {
			return unexpected("the gateway's record", "no worker has sent anything")
		}
		w.kill()
		s.say.line(s.Out.Bad("kill -9 ") + w.name + s.Out.Dim(fmt.Sprintf(" (process %d); %s to take over", w.pid(), s.other(workers, w).name)))
		gate.Open()
		return nil
	})
	if err != nil {
		return err
	}
	effects, requests = len(s.gateway.Effects())-effects, len(s.gateway.Requests())-requests
	if got.SuccessCount != 5 || effects != 5 {
		return unexpected("the batch that survives", fmt.Sprintf("%+v, %d effects", *got, effects))
	}
	s.say.text(fmt.Sprintf("summary: %d of %d ran. The gateway saw %d requests and %d emails: nothing was lost and nothing was done twice.",
		got.SuccessCount, got.TotalCount, requests, effects))
	return nil
}

// sender is the worker whose token came with the newest execute.
func (s *stage) sender(workers []*process) *process {
	all := s.gateway.Requests()
	for i := len(all) - 1; i >= 0; i-- {
		for _, w := range workers {
			if all[i].Authorization == "Bearer "+w.token {
				return w
			}
		}
	}
	return nil
}

func (s *stage) other(workers []*process, not *process) *process {
	for _, w := range workers {
		if w != not {
			return w
		}
	}
	return not
}
