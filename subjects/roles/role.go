package roles

import (
	"fmt"
	"strings"
	"time"

	"toolsearch/subjects"
)

// Role is a part that somebody plays on the bus.
type Role string

// The roles.
const (
	Runtime      Role = "runtime"      // one session: its requests, its stops, its results, its policy
	Interface    Role = "interface"    // one session's user: its cards and its user's accounts, which no model may touch
	Orchestrator Role = "orchestrator" // one tenant: assemble and stop for its sessions, their results
	Host         Role = "host"         // answers on the subjects of one tool host of one tenant
	Worker       Role = "worker"       // answers requests of all tenants and runs their calls
	Operator     Role = "operator"     // makes the streams, looks after jobs
)

// All lists the roles.
func All() []Role { return []Role{Runtime, Interface, Orchestrator, Host, Worker, Operator} }

// The accounts of the server.
const (
	Service    = "TOOLSEARCH" // workers, hosts, operators, and JetStream
	Clients    = "CLIENTS"    // runtimes and orchestrators
	Interfaces = "INTERFACES" // what a user looks at and presses
)

// Accounts lists the accounts.
func Accounts() []string { return []string{Service, Clients, Interfaces} }

// Account is where users of the role live.
func (r Role) Account() string {
	switch r {
	case Runtime, Orchestrator:
		return Clients
	case Interface:
		return Interfaces
	}
	return Service
}

// HasBodies reports whether [Names.Bodies] means anything to the role.
func (r Role) HasBodies() bool { return r == Runtime || r == Orchestrator || r == Host }

// WorkerInbox is the prefix of a worker's inbox: what JetStream, hooks and hosts answer to it.
const WorkerInbox = "_INBOX.worker"

// Names fill the subjects of a role.
type Names struct {
	// Root is the root of every subject; empty: [subjects.DefaultRoot].
	Root subjects.Root
	// Tenant, Session and Host are tokens, or templates of one tag such as [Tag]("tenant"). Those that the role has no
	// use for are ignored.
	Tenant, Session, Host string
	// Bodies also opens the tenant's bucket of large bodies, and for a host the bucket of its idempotency keys. It has
	// no effect on workers and operators, who may use every bucket.
	Bodies bool
}

// Tag is the placeholder that a server fills from a user's tag, where a scoped signing key's template holds it.
func Tag(name string) string { return "{{tag(" + name + ")}}" }

// Permissions are what a user may do, and nothing else.
type Permissions struct {
	// Publish lists what the user may publish of its own accord. A server reads an empty list as "everything", so where
	// it is empty a denial of ">" has to be written.
	Publish []string
	// Subscribe is never empty.
	Subscribe []string
	// Responses, if not nil, also lets the user answer: publish to the reply subject of a message that it received.
	Responses *Responses
}

// Responses bound the answers to one message.
type Responses struct {
	Max     int           // answers to one message
	Expires time.Duration // from the message's arrival
}

// Answers must outlast whoever waits for them: a worker's caller (30 minutes for a call by default), a runtime's hook
// (5 minutes by default), a host's request (2 minutes by default).
const (
	workerAnswers  = time.Hour
	runtimeAnswers = 15 * time.Minute
	hostAnswers    = 15 * time.Minute
)

// Needs lists which of "tenant", "session" and "host" the role's subjects are made of.
func (r Role) Needs() []string {
	switch r {
	case Runtime, Interface:
		return []string{"tenant", "session"}
	case Orchestrator:
		return []string{"tenant"}
	case Host:
		return []string{"tenant", "host"}
	}
	return nil
}

// Name is the value of one of the names that [Role.Needs] lists.
func (n Names) Name(which string) string {
	switch which {
	case "tenant":
		return n.Tenant
	case "session":
		return n.Session
	case "host":
		return n.Host
	}
	return ""
}

// Permissions are the role's, for the names given.
func (r Role) Permissions(n Names) (Permissions, error) {
	if n.Root == "" {
		n.Root = subjects.DefaultRoot
	}
	if err := n.Root.Validate(); err != nil {
		return Permissions{}, fmt.Errorf("roles: Names.Root: %w", err)
	}
	for _, need := range r.Needs() {
		if v := n.Name(need); !subjects.ValidToken(v) && !template(v) {
			return Permissions{}, fmt.Errorf("roles: a %s needs a %s that is 1 to %d of A-Z a-z 0-9 _ -, not %q; see subjects.Token",
				r, need, subjects.MaxToken, v)
		}
	}
	switch r {
	case Runtime:
		return n.runtime(), nil
	case Interface:
		return n.user(), nil
	case Orchestrator:
		return n.orchestrator(), nil
	case Host:
		return n.host(), nil
	case Worker:
		return n.worker(), nil
	case Operator:
		return n.operator(), nil
	}
	return Permissions{}, fmt.Errorf("roles: no role %q; there are %v", string(r), All())
}

// template reports whether v is one tag's placeholder.
func template(v string) bool {
	name, ok := strings.CutPrefix(v, "{{tag(")
	name, end := strings.CutSuffix(name, ")}}")
	return ok && end && subjects.ValidToken(name)
}

// inbox is what a session or a host subscribes to hear replies. It is written like [subjects.InboxPrefix], which would
// encode a placeholder.
func inbox(tenant, who string) string { return "_INBOX_" + tenant + "." + who + ".>" }

func (n Names) runtime() Permissions {
	p := Permissions{
		Publish: []string{
			n.Root.Request(n.Tenant, n.Session, "*"),
			n.Root.StopSession(n.Tenant, n.Session),
			n.Root.StopCall(n.Tenant, n.Session, "*"),
		},
		Subscribe: []string{
			n.Root.SessionResults(n.Tenant, n.Session),
			n.Root.Hook(n.Tenant, n.Session, "*"),
			inbox(n.Tenant, n.Session),
		},
		Responses: &Responses{Max: 1, Expires: runtimeAnswers},
	}
	return n.withBodies(p)
}

// user is the interface's. Its inbox is written like its session's runtime's; the account keeps the two apart.
func (n Names) user() Permissions {
	return Permissions{
		Publish:   []string{string(n.Root) + "." + string(subjects.FamilyUI) + "." + n.Tenant + "." + n.Session + ".*"},
		Subscribe: []string{n.Root.SessionCards(n.Tenant, n.Session), inbox(n.Tenant, n.Session)},
	}
}

func (n Names) orchestrator() Permissions {
	return n.withBodies(Permissions{
		Publish: []string{
			n.Root.Request(n.Tenant, "*", subjects.VerbAssemble),
			n.Root.StopSession(n.Tenant, "*"),
			n.Root.StopCall(n.Tenant, "*", "*"),
		},
		Subscribe: []string{
			n.Root.Result(n.Tenant, "*", "*"),
			"_INBOX_" + n.Tenant + ".>", // of whichever session it speaks for
		},
	})
}

func (n Names) host() Permissions {
	p := Permissions{
		Publish:   nil,
		Subscribe: []string{n.Root.Host(n.Tenant, n.Host, "*"), inbox(n.Tenant, n.Host)},
		Responses: &Responses{Max: 1, Expires: hostAnswers},
	}
	if n.Bodies {
		// A host's client looks whether the bucket is as it wants it, reads a key anywhere and watches those that run.
		bucket := "TOOLSEARCH_HOSTS_" + n.Tenant
		keys := "KV_" + bucket
		p.Publish = append(p.Publish,
			"$KV."+bucket+"."+n.Host+".>",
			"$JS.API.STREAM.CREATE."+keys, "$JS.API.STREAM.UPDATE."+keys, "$JS.API.STREAM.INFO."+keys,
			"$JS.API.STREAM.MSG.GET."+keys, "$JS.API.DIRECT.GET."+keys+".>",
			"$JS.API.CONSUMER.CREATE."+keys+".>", "$JS.API.CONSUMER.DELETE."+keys+".*", "$JS.FC."+keys+".>",
		)
	}
	return n.withBodies(p)
}

// withBodies adds what the claim check needs on the tenant's bucket, which must exist.
func (n Names) withBodies(p Permissions) Permissions {
	if n.Bodies {
		bucket := subjects.BodyBucket(n.Tenant)
		p.Publish = append(p.Publish, "$O."+bucket+".>", "$JS.API.STREAM.INFO.OBJ_"+bucket, "$JS.API.STREAM.MSG.GET.OBJ_"+bucket)
	}
	return p
}

func (n Names) worker() Permissions {
	root := string(n.Root)
	return Permissions{
		Publish: []string{
			n.Root.Results(), n.Root.Jobs(), root + ".dead.>",
			root + "." + string(subjects.FamilyCard) + ".>", root + "." + string(subjects.FamilyHook) + ".>", root + "." + string(subjects.FamilyHost) + ".>",
			"$KV.>", "$O.>", "$JS.ACK.>",
			"$JS.API.INFO", "$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.INFO.*",
			"$JS.API.STREAM.MSG.GET.*", "$JS.API.STREAM.MSG.DELETE.*", "$JS.API.STREAM.PURGE.*", "$JS.API.DIRECT.GET.>",
			"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.CONSUMER.DELETE.>",
			"$JS.API.CONSUMER.LIST.*", // what the queue's metrics are counted from
			// Job messages carry another worker's inbox as their reply. Were it not allowed, the server would keep each
			// as an answer that is still due.
			WorkerInbox + ".>",
		},
		Subscribe: []string{n.Root.Requests("*"), root + "." + string(subjects.FamilyUI) + ".*.*.*", n.Root.Jobs(), "$SRV.>", WorkerInbox + ".>"},
		Responses: &Responses{Max: 1, Expires: workerAnswers},
	}
}

func (n Names) operator() Permissions {
	return Permissions{
		// What is restored, and the acknowledgements of a large backup, travel beside the API.
		Publish:   []string{"$JS.API.>", "$JS.ACK.>", "$JS.SNAPSHOT.>", "$SRV.>", "$KV.>", "$O.>", n.Root.Jobs()},
		Subscribe: []string{"_INBOX.>", "$JS.EVENT.>", "$SRV.>"},
	}
}
