package gatewaytest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// links are the accounts of tenants. An app that is not Unlinked has one from the first time that it is asked for.
type links struct {
	mu  sync.Mutex
	all []*link
}

// link is one account of an app; the statuses are the gateway's six.
type link struct {
	tenant, connector, alias, id string
	status, reason               string
	created, updated             time.Time
}

func (l *link) set(status, reason string) {
	l.status, l.reason, l.updated = status, reason, time.Now()
}

// of finds an account, or makes one where an app is linked from the start. The lock is held.
func (l *links) of(tenant string, app *App, alias string) *link {
	for _, k := range l.all {
		if k.tenant == tenant && k.connector == app.Connector && k.alias == alias {
			return k
		}
	}
	if app.Unlinked || app.Disabled || alias != "" {
		return nil
	}
	return l.add(tenant, app.Connector, alias, "active")
}

func (l *links) add(tenant, connector, alias, status string) *link {
	now := time.Now()
	k := &link{tenant: tenant, connector: connector, alias: alias, id: "ca_" + randomID(), status: status, created: now, updated: now}
	l.all = append(l.all, k)
	return k
}

// linked reports whether any account of an app works.
func (l *links) linked(tenant string, app *App) bool {
	status, _ := l.stands(tenant, app)
	return status == "active"
}

// stands is the best status of an app's accounts, "" if it has none.
func (l *links) stands(tenant string, app *App) (status, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(tenant, app, "")
	for _, k := range l.all {
		if k.tenant == tenant && k.connector == app.Connector && (status == "" || k.status == "active") {
			status, reason = k.status, k.reason
		}
	}
	return status, reason
}

// pending is an app's account with a link that waits for the user.
func (l *links) pending(tenant string, app *App, alias string) link {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(tenant, app, alias)
	if k == nil {
		k = l.add(tenant, app.Connector, alias, "pending")
	}
	if k.id == "" {
		k.id = "ca_" + randomID()
	}
	k.set("pending", "")
	return *k
}

// active is an app's account, if it works.
func (l *links) active(tenant string, app *App, alias string) (link, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.of(tenant, app, alias); k != nil && k.status == "active" {
		return *k, true
	}
	return link{}, false
}

// change alters the account of an id.
func (l *links) change(id string, change func(*link)) (link, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.all {
		if k.id == id && id != "" {
			change(k)
			return *k, true
		}
	}
	return link{}, false
}

// list lists a tenant's accounts.
func (l *links) list(tenant string, apps []App) []link {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []link{}
	for i := range apps {
		l.of(tenant, &apps[i], "")
	}
	for _, k := range l.all {
		if k.tenant == tenant && k.id != "" {
			out = append(out, *k)
		}
	}
	return out
}

func (l *links) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range l.all {
		if k.id == id { // it stays, so that an app which was linked from the start is not linked again
			l.all[i] = &link{tenant: k.tenant, connector: k.connector, alias: k.alias, status: "revoked", created: k.created, updated: time.Now()}
		}
	}
}

// Link links or unlinks a tenant's account of an app.
func (g *Gateway) Link(tenant, connector string, linked bool) {
	status := "active"
	if !linked {
		status = "inactive"
	}
	g.SetAccount(tenant, connector, "", status, "")
}

// SetAccount gives a tenant's account of an app one of the gateway's statuses: pending, active, failed, expired,
// revoked or inactive.
func (g *Gateway) SetAccount(tenant, connector, alias, status, reason string) {
	app := g.app(connector)
	if app == nil {
		return
	}
	g.links.mu.Lock()
	defer g.links.mu.Unlock()
	k := g.links.of(tenant, app, alias)
	if k == nil {
		k = g.links.add(tenant, app.Connector, alias, status)
	}
	if k.id == "" {
		k.id = "ca_" + randomID()
	}
	k.set(status, reason)
}

func (g *Gateway) connect(in *incoming) reply {
	var q struct {
		Connectors []string `json:"connectors"`
		Reinitiate bool     `json:"reinitiate"`
		Alias      string   `json:"alias"`
	}
	if json.Unmarshal(in.body, &q) != nil {
		return badBody()
	}
	if q.Alias != "" && len(q.Connectors) != 1 {
		return refuse(http.StatusBadRequest, "BAD_REQUEST", "an alias goes with one connector")
	}
	results, counts := []map[string]any{}, map[string]int{"total": len(q.Connectors), "active": 0, "initiated": 0, "failed": 0}
	for _, name := range q.Connectors {
		r := g.start(in.tenant, name, q.Alias, q.Reinitiate)
		counts[r["status"].(string)]++
		results = append(results, r)
	}
	return answer(map[string]any{"results": results, "summary": counts})
}

func (g *Gateway) start(tenant, connector, alias string, again bool) map[string]any {
	app := g.app(connector)
	switch {
	case app == nil:
		return map[string]any{"connector": connector, "status": "failed", "statusReason": "there is no such app"}
	case app.Disabled:
		return map[string]any{"connector": app.Connector, "status": "failed", "statusReason": "switched off by an administrator"}
	}
	out := map[string]any{"connector": app.Connector}
	if alias != "" {
		out["alias"] = alias
	}
	if k, ok := g.links.active(tenant, app, alias); ok && !again {
		out["status"], out["connectionId"] = "active", k.id
		return out
	}
	k := g.links.pending(tenant, app, alias)
	out["status"], out["connectionId"], out["reinitiated"] = "initiated", k.id, again
	out["connectUrl"], out["instruction"] = g.url+"/connect/"+k.id, "Open the link to connect."
	return out
}

func (g *Gateway) account(in *incoming) reply {
	k, ok := g.links.change(in.PathValue("id"), func(*link) {})
	if !ok || k.tenant != in.tenant {
		return reply{status: http.StatusNotFound, body: []byte(`{"error":"connection_not_found"}`)}
	}
	out := map[string]any{"connectionId": k.id, "connector": k.connector, "status": k.status, "label": k.label(),
		"active": k.status == "active", "createdAt": stamp(k.created), "updatedAt": stamp(k.updated)}
	if k.alias != "" {
		out["alias"] = k.alias
	}
	if k.reason != "" {
		out["statusReason"] = k.reason
	}
	return answer(out)
}

func (k *link) label() string {
	name := k.connector + " of " + k.tenant
	if k.alias != "" {
		name += " (" + k.alias + ")"
	}
	return name
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// tell writes what became of an account into the log.
func (g *Gateway) tell(k link, what string) {
	g.log.Info("account", slog.String("event", what), slog.String("tenant", k.tenant), slog.String("connector", k.connector), slog.String("alias", k.alias))
}

// aliased reports whether another account of the tenant's app has the alias.
func (l *links) aliased(k link, alias string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(o *link) bool {
		return o.id != k.id && o.id != "" && o.tenant == k.tenant && strings.EqualFold(o.connector, k.connector) && o.alias == alias
	})
}
