package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"toolsearch/subjects"
)

// process is a worker of its own.
type process struct {
	name, token string
	cmd         *exec.Cmd
	log         *strings.Builder
	gone        bool
}

// takeover is how soon a killed worker's job goes to another, and how soon the agent asks again. A real installation
// waits longer, 30 s if nobody says otherwise.
const takeover = time.Second

// startWorkers starts n workers and returns when all answer.
func (s *stage) startWorkers(ctx context.Context, n int) ([]*process, error) {
	var out []*process
	for i := 1; i <= n; i++ {
		p := &process{name: fmt.Sprintf("worker-%d", i), token: token(i), log: &strings.Builder{}}
		args := append(slices.Clone(s.Worker[1:]), "--nats", s.bus.ClientURL(), "--name", p.name, "--gateway", s.gateway.URL(), "--log-level", "warn")
		p.cmd = exec.CommandContext(ctx, s.Worker[0], args...)
		p.cmd.Env = append(slices.Clone(s.Environ), "TOOLSEARCH_TOOLS_CONNECTORS_TOKEN="+p.token, "TOOLSEARCH_WORKER_ACK_WAIT="+takeover.String(),
			"TOOLSEARCH_ADMIN_ADDR=", "OTEL_SDK_DISABLED=true") // a show opens no port and exports nothing
		p.cmd.Stderr = p.log
		if err := p.cmd.Start(); err != nil {
			return out, fmt.Errorf("demo: start a worker process: %w", err)
		}
		out = append(out, p)
	}
	if err := s.answering(ctx, out); err != nil {
		for _, p := range out {
			p.end() // so that its log can be read
			err = fmt.Errorf("%w; %s said: %s", err, p.name, p.log)
		}
		return nil, err
	}
	return out, nil
}

// answering pings the service until each worker has answered by its name.
func (s *stage) answering(ctx context.Context, workers []*process) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	inbox := s.nc.NewRespInbox()
	pongs, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = pongs.Unsubscribe() }()
	seen := map[string]bool{}
	for len(seen) < len(workers) {
		if err := s.nc.PublishRequest(micro.APIPrefix+".PING."+subjects.ServiceName, inbox, nil); err != nil {
			return err
		}
		for {
			wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			m, err := pongs.NextMsgWithContext(wait)
			cancel()
			if err != nil {
				break
			}
			if name := workerName(m); slices.ContainsFunc(workers, func(p *process) bool { return p.name == name }) {
				seen[name] = true
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("demo: only %d of %d worker processes answer", len(seen), len(workers))
		}
	}
	return nil
}

func workerName(m *nats.Msg) string {
	var ping micro.Ping
	if json.Unmarshal(m.Data, &ping) != nil {
		return ""
	}
	return ping.Metadata["worker"]
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process without a word, as SIGKILL does, and waits until it is gone.
func (p *process) kill() {
	if p.gone {
		return
	}
	p.gone = true
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // its exit status says that it was killed
}

// end is kill for the end of the show: the workers hold nothing that is kept.
func (p *process) end() { p.kill() }
