package manifests

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose", "compose.yaml")}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeIsWhole(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for _, want := range []string{"nats-1", "nats-2", "nats-3", "init", "worker-1", "worker-2", "gateway", "collector", "jaeger",
		"prometheus", "grafana"} {
		if _, err := p.GetService(want); err != nil {
			t.Error(err)
		}
	}
	for name, s := range p.Services {
		checkImage(t, name, s.Image)
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open on %q, want the loopback address", name, port.Published, port.HostIP)
			}
		}
		if s.Build == nil {
			continue
		}
		for _, f := range []string{s.Build.Context, filepath.Join(s.Build.Context, s.Build.Dockerfile)} {
			if _, err := os.Stat(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !s.ReadOnly {
			t.Errorf("%s: its files can be written", name)
		}
	}
}

func TestComposeDrainsHaveTime(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for _, name := range []string{"worker-1", "worker-2"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.StopGracePeriod == nil {
			t.Errorf("%s has no stop_grace_period", name)
			continue
		}
		checkDrain(t, name, []byte(read(t, "compose", "toolsearch.yaml")), time.Duration(*s.StopGracePeriod))
	}
}

// TestComposeRoutes checks that each server knows all three, by the names they have.
func TestComposeRoutes(t *testing.T) {
	t.Parallel()
	p := compose(t)
	want := `["nats://cluster:laptop@nats-1:6222", "nats://cluster:laptop@nats-2:6222", "nats://cluster:laptop@nats-3:6222"]`
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Environment["NATS_SERVER_NAME"]; got == nil || *got != name {
			t.Errorf("%s calls itself %v", name, got)
		}
		if got := s.Environment["NATS_ROUTES"]; got == nil || *got != want {
			t.Errorf("%s: routes are %v, want %s", name, *got, want)
		}
	}
}
