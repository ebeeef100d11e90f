package gatewaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// PortalOptions are the settings of [StartPortal].
type PortalOptions struct {
	// Addr to listen on; "" is 127.0.0.1:0.
	Addr string
	// Strangers are tenants who are no members of the organization: they may look, and disconnect nothing.
	Strangers []string
}

// Portal is the account-management service of a [Gateway]'s accounts: a list with entity tags, a disconnect that checks
// the membership and writes an audit, and new names. It takes the gateway's tokens.
type Portal struct {
	g       *Gateway
	options PortalOptions
	url     string
	server  *http.Server
	served  chan struct{}
	once    sync.Once

	mu     sync.Mutex
	audits []Audit
	faults []Fault
	asked  int
}

// Audit is the record of one attempt to disconnect an account.
type Audit struct {
	ID, Tenant, ConnectionID string
	Allowed                  bool
}

// StartPortal listens and serves until Close.
func StartPortal(g *Gateway, o PortalOptions) (*Portal, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("gatewaytest: %w", err)
	}
	p := &Portal{g: g, options: o, url: "http://" + listener.Addr().String(), served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/connectors/accounts", p.serve(p.list))
	mux.HandleFunc("DELETE /api/v1/connectors/accounts/{id}", p.serve(p.disconnect))
	mux.HandleFunc("PATCH /api/v1/connectors/accounts/{id}", p.serve(p.rename))
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(p.served)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("account service stopped serving", "reason", err.Error())
		}
	}()
	return p, nil
}

// URL is the origin, without a trailing slash.
func (p *Portal) URL() string { return p.url }

// Close breaks every connection and returns. It may be called again.
func (p *Portal) Close() error {
	var err error
	p.once.Do(func() { err = p.server.Close() })
	<-p.served
	return err
}

// Audits are the attempts to disconnect, in order.
func (p *Portal) Audits() []Audit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Audit(nil), p.audits...)
}

// Asked is how many requests there were in all.
func (p *Portal) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Fault lets the next requests go wrong, each fault once: Status or Drop, before or after the effect.
func (p *Portal) Fault(f ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f...)
}

func (p *Portal) serve(f func(*incoming) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := &incoming{Request: r}
		known := p.g.identify(in)
		p.mu.Lock()
		p.asked++
		var fault *Fault
		if len(p.faults) > 0 {
			fault, p.faults = &p.faults[0], p.faults[1:]
		}
		p.mu.Unlock()
		answer := func() reply {
			if !known {
				return refuse(http.StatusUnauthorized, "UNAUTHORIZED", "the token is missing or not known")
			}
			return f(in)
		}
		if fault == nil {
			send(w, answer())
			return
		}
		if fault.AfterEffect {
			answer()
		}
		if fault.Kind == Drop {
			drop(w)
			return
		}
		send(w, fault.statusReply())
	}
}

func (p *Portal) list(in *incoming) reply {
	items := []map[string]any{}
	for _, k := range p.g.links.list(in.tenant, p.g.apps) {
		item := map[string]any{"connectionId": k.id, "connector": k.connector, "label": k.label(), "status": k.status,
			"active": k.status == "active", "createdAt": stamp(k.created)}
		if k.alias != "" {
			item["alias"] = k.alias
		}
		items = append(items, item)
	}
	r := answer(map[string]any{"items": items})
	sum := sha256.Sum256(r.body)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	r.header = http.Header{"ETag": {etag}}
	if in.Header.Get("If-None-Match") == etag {
		r.status, r.body = http.StatusNotModified, nil
	}
	return r
}

func (p *Portal) audit(in *incoming, id string, allowed bool) string {
	a := Audit{ID: "aud_" + randomID(), Tenant: in.tenant, ConnectionID: id, Allowed: allowed}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.audits = append(p.audits, a)
	return a.ID
}

func (p *Portal) disconnect(in *incoming) reply {
	id := in.PathValue("id")
	for _, s := range p.options.Strangers {
		if s == in.tenant {
			r := refuse(http.StatusForbidden, "NOT_A_MEMBER", "Only members of the organization may disconnect its accounts.")
			r.header = http.Header{"X-Audit-Id": {p.audit(in, id, false)}}
			return r
		}
	}
	k, ok := p.g.links.change(id, func(*link) {})
	if !ok || k.tenant != in.tenant {
		return refuse(http.StatusNotFound, "ACCOUNT_NOT_FOUND", "There is no such account.")
	}
	p.g.links.remove(id)
	return answer(map[string]any{"disconnected": true, "auditId": p.audit(in, id, true)})
}

func (p *Portal) rename(in *incoming) reply {
	var q struct {
		Alias string `json:"alias"`
	}
	if json.NewDecoder(http.MaxBytesReader(nil, in.Body, 4<<10)).Decode(&q) != nil || strings.TrimSpace(q.Alias) == "" {
		return badBody()
	}
	k, ok := p.g.links.change(in.PathValue("id"), func(*link) {})
	switch {
	case !ok || k.tenant != in.tenant:
		return refuse(http.StatusNotFound, "ACCOUNT_NOT_FOUND", "There is no such account.")
	case p.g.links.aliased(k, q.Alias):
		return refuse(http.StatusConflict, "ALIAS_TAKEN", "Another account of this app has that alias.")
	}
	p.g.links.change(k.id, func(l *link) { l.alias = q.Alias })
	return answer(map[string]any{"connectionId": k.id, "alias": q.Alias})
}
