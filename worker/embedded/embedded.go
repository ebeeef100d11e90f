package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// InProcessOnly as [Options.Port] opens no port at all: only [Server.InProcess] reaches the server.
const InProcessOnly = -1

// Options configure [Start]. The zero value is a server on a free loopback port with a folder of its own.
type Options struct {
	// Dir holds the streams and is kept. Empty: a temporary folder that Shutdown removes.
	Dir string
	// Host is the address to listen on. Empty: 127.0.0.1, which no other machine reaches.
	Host string
	// Port to listen on. 0: a free one; [InProcessOnly]: none.
	Port int
	// Name is the server's name, as clients see it. Empty: "toolsearch-embedded".
	Name string
	// MaxPayload bounds one message, in bytes. 0: 1 MiB, as every NATS server has by default.
	MaxPayload int
	// SyncAlways writes each message to the disk before it is acknowledged, so that a power loss loses nothing that
	// was acknowledged. False: written at once, synced every two minutes, which a killed process survives.
	SyncAlways bool
	// StartTimeout bounds how long Start waits for a server that answers. 0: 10 s.
	StartTimeout time.Duration
	// Logger gets what the server logs. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Name == "" {
		o.Name = "toolsearch-embedded"
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = 1 << 20
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Port < InProcessOnly || o.Port > 65535:
		return fmt.Errorf("embedded: Options.Port is %d; use 1 to 65535, 0 for a free port or -1 for none", o.Port)
	case o.MaxPayload < 0:
		return fmt.Errorf("embedded: Options.MaxPayload is %d; it must not be negative", o.MaxPayload)
	case o.StartTimeout < 0:
		return fmt.Errorf("embedded: Options.StartTimeout is %s; it must not be negative", o.StartTimeout)
	}
	return nil
}

// DirError is a folder that cannot hold the streams. One that is only in use by another server is none.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string {
	return fmt.Sprintf("embedded: cannot write in the folder %s; choose one that can be written: %v", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.Err }

// Server is a running NATS server. Its methods may be called side by side.
type Server struct {
	ns       *server.Server
	url      string
	dir      string
	own      bool // dir was made by Start
	lock     *dirLock
	shutdown sync.Once
}

// Start runs a server and returns when it answers. An error tells a port that is taken from a folder that another
// server uses or that cannot be written, which is a *[DirError].
func Start(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Port > 0 {
		if err := probePort(o.Host, o.Port); err != nil {
			return nil, err
		}
	}
	s := &Server{dir: o.Dir}
	if err := s.openDir(); err != nil {
		return nil, err
	}
	if err := s.run(o); err != nil {
		s.closeDir()
		return nil, err
	}
	return s, nil
}

// probePort turns a port that is taken into an error at once; the server itself would only log it.
func probePort(host string, port int) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("embedded: cannot listen on %s; choose another port, or 0 for a free one: %w", addr, err)
	}
	return l.Close()
}

func (s *Server) openDir() error {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "toolsearch-nats-")
		if err != nil {
			return fmt.Errorf("embedded: cannot make a temporary folder; set Options.Dir to one that can be written: %w", err)
		}
		s.dir, s.own = dir, true
	} else if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return &DirError{Dir: s.dir, Err: err}
	}
	lock, err := lockDir(filepath.Join(s.dir, "toolsearch.lock"))
	if err != nil {
		s.closeDir()
		if errors.Is(err, errLocked) {
			return fmt.Errorf("embedded: the folder %s is in use by another server; "+
				"stop that one or choose another folder", s.dir)
		}
		return &DirError{Dir: s.dir, Err: err}
	}
	s.lock = lock
	return nil
}

func (s *Server) closeDir() {
	if s.lock != nil {
		s.lock.release()
	}
	if s.own {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) run(o Options) error {
	opts := &server.Options{
		ServerName: o.Name,
		Host:       o.Host,
		Port:       o.Port,
		DontListen: o.Port == InProcessOnly,
		MaxPayload: int32(o.MaxPayload),
		JetStream:  true,
		StoreDir:   s.dir,
		SyncAlways: o.SyncAlways,
		NoSigs:     true,
	}
	if o.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded: server options: %w", err)
	}
	log := &bridge{log: o.Logger}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(o.StartTimeout) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		if reason := log.fatal(); reason != "" {
			return fmt.Errorf("embedded: the server did not start: %s", reason)
		}
		return fmt.Errorf("embedded: the server did not answer within %s; "+
			"look at its log, or give it more time (Options.StartTimeout)", o.StartTimeout)
	}
	s.ns = ns
	if !opts.DontListen {
		s.url = ns.ClientURL()
	}
	return nil
}

// ClientURL is where clients connect, such as "nats://127.0.0.1:4222", or "" for a server that listens nowhere.
// nats.Connect takes either together with [Server.InProcess].
func (s *Server) ClientURL() string { return s.url }

// InProcess makes a connection that goes through memory rather than a socket.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.ns) }

// Dir is the folder of the streams.
func (s *Server) Dir() string { return s.dir }

// Shutdown closes the server and its streams and blocks until that is done. A folder that [Start] made is removed.
// Further calls wait for the first and do nothing.
func (s *Server) Shutdown() {
	s.shutdown.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.closeDir()
	})
}
