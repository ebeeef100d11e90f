package credential_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
	"toolsearch/worker/storage"
)

// environment guards the variables that tell the servers of a cluster apart.
var environment sync.Mutex

// setenv sets what cluster.conf reads.
func setenv(t testing.TB, name string, ports []int) {
	t.Helper()
	const password = "pw-cluster"
	routes := make([]string, len(ports))
	for i, port := range ports {
		routes[i] = fmt.Sprintf("%q", fmt.Sprintf("nats://cluster:%s@127.0.0.1:%d", password, port))
	}
	for k, v := range map[string]string{
		"NATS_SERVER_NAME": name, "NATS_CLUSTER_PASSWORD": password, "NATS_ROUTES": "[" + strings.Join(routes, ", ") + "]",
	} {
		if err := os.Setenv(k, v); err != nil {
			t.Fatal(err)
		}
	}
}

// newCluster starts three servers from cluster.conf, moved to free ports.
func newCluster(t *testing.T, fleet bool) (*bus, []*server.Server) {
	t.Helper()
	i := install(t, fleet)
	ports := freePorts(t, 3)
	var options []*server.Options
	environment.Lock()
	for n := range ports {
		setenv(t, fmt.Sprintf("nats-%d", n+1), ports)
		o := i.options(t, "cluster.conf")
		if o.Cluster.Host != "0.0.0.0" || o.Cluster.Port != 6222 || len(o.Routes) != 3 || o.ServerName != fmt.Sprintf("nats-%d", n+1) {
			t.Errorf("cluster.conf: %s has routes on %s:%d to %v", o.ServerName, o.Cluster.Host, o.Cluster.Port, o.Routes)
		}
		o.Cluster.Host, o.Cluster.Port = "127.0.0.1", ports[n]
		options = append(options, o)
	}
	environment.Unlock()
	var servers []*server.Server
	for _, o := range options {
		servers = append(servers, start(t, o))
	}
	for _, s := range servers {
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatalf("%s is not ready", s.Name())
		}
	}
	return &bus{installation: i, t: t, s: servers[0]}, servers
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// TestCluster brings up three servers from the files, makes the streams in three copies, and works on after one of the
// servers is gone.
func TestCluster(t *testing.T) {
	t.Parallel()
	for name, fleet := range map[string]bool{"password": false, "fleet": true} {
		t.Run(name, func(t *testing.T) {
			b, servers := newCluster(t, fleet)
			ctx := inTime(t)
			b.must(roles.Operator, "init", "--replicas", "3", "--timeout", "60s")
			b.must(roles.Operator, "init", "--replicas", "3", "--check")
			operator := b.login(roles.Operator, own)
			js, err := jetstream.New(operator.Conn)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range (storage.Layout{Replicas: 3}).Streams() {
				s, err := js.Stream(ctx, want.Name)
				if err != nil {
					t.Fatal(err)
				}
				if c := s.CachedInfo().Cluster; c == nil || c.Leader == "" || len(c.Replicas) != 2 {
					t.Errorf("stream %s has the cluster %+v", want.Name, c)
				}
			}
			var all []string
			for _, s := range servers {
				u := *must(url.Parse(b.url(roles.Worker)))
				u.Host = s.Addr().String()
				all = append(all, u.String())
			}
			b.node(func(s *config.Settings) { s.NATS.URL, s.Store.Replicas = strings.Join(all, ","), 3 })
			_, definitions := b.host(own, ring)
			runtime := b.login(roles.Runtime, own)
			session := runtime.session(own)
			opened, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: tools(t, definitions)})
			if err != nil {
				t.Fatal(err)
			}
			ringOnce := subjects.CallRequest{Scope: subjects.Handle(opened.Scope), Arguments: []byte(`{"name":"mcp__clock__ring","arguments":{}}`)}
			if _, err := session.Call(ctx, ringOnce, nil); err != nil {
				t.Fatal(err)
			}

			// The clients are at the first server; another one goes.
			servers[2].Shutdown()
			servers[2].WaitForShutdown()
			if called, err := session.Call(ctx, ringOnce, nil); err != nil {
				t.Errorf("with two of three servers: %v, %v", called, err)
			}
			if ack, err := session.Stop(ctx, ""); err != nil || ack.Seq == 0 {
				t.Errorf("with two of three servers: %v, %v", ack, err)
			}
			runtime.quiet(roles.Runtime)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestClusterPassword checks that a server without the cluster's password is told so.
func TestClusterPassword(t *testing.T) {
	t.Parallel()
	_, servers := newCluster(t, false)
	stranger := &server.Options{ServerName: "stranger", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "toolsearch", Host: "127.0.0.1", Port: server.RANDOM_PORT},
		Routes:  []*url.URL{must(url.Parse("nats://" + servers[0].ClusterAddr().String()))}}
	refused := make(chan string, 16)
	s, err := server.NewServer(stranger)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLoggerV2(&errorLog{refused}, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	for line := await(t, refused, "the refusal"); !strings.Contains(line, "Authorization"); {
		line = await(t, refused, "the refusal")
	}
}

// errorLog keeps a server's errors.
type errorLog struct{ lines chan<- string }

func (l *errorLog) Noticef(string, ...any) {}
func (l *errorLog) Warnf(string, ...any)   {}
func (l *errorLog) Fatalf(string, ...any)  {}
func (l *errorLog) Debugf(string, ...any)  {}
func (l *errorLog) Tracef(string, ...any)  {}
func (l *errorLog) Errorf(format string, v ...any) {
	select {
	case l.lines <- fmt.Sprintf(format, v...):
	default:
	}
}
