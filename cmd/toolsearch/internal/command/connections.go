package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

// managing is what the connections verbs' own flags say.
type managing struct {
	alias, to, id string
	force         bool
}

// connectionActions are manage_connections' actions, as verbs.
var connectionActions = []struct {
	name, short string
	local       bool
}{
	{"status", "Show which apps are connected", false},
	{"connect", "Link apps: prints a link for each, or shows a card and waits", false},
	{"reconnect", "Repair the links of apps", false},
	{"rename", "Give an account another alias", false},
	{"install", "Have a tool host install local MCP servers", true},
	{"enable", "Have a tool host enable local MCP servers", true},
	{"authorize", "Have a tool host authorize local MCP servers", true},
}

func (a *app) connections() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connections",
		Short: "See, link and end the accounts that connectors work in",
		Long: `Connections asks what a model asks with manage_connections: which apps are connected, and links for those that are not.
With --surface card the call waits until the user is done with the card, which "connections cards" shows and
"connections answer" presses the buttons of. "connections accounts" and "connections disconnect" are for the user's
own interface: a model can disconnect nothing.

` + exitHelp,
		Example: `  toolsearch connections status
  toolsearch connections connect chat
  toolsearch connections reconnect mail --force
  toolsearch connections connect chat mail --surface card`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, action := range connectionActions {
		cmd.AddCommand(a.connectionAction(action.name, action.short, action.local))
	}
	cmd.AddCommand(a.cards(), a.answer(), a.accounts(), a.disconnect())
	return cmd
}

func (a *app) connectionAction(action, short string, local bool) *cobra.Command {
	var c client
	var s scoping
	var m managing
	cmd := &cobra.Command{
		Use:   action + " [name...]",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := m.arguments(action, local, args)
			if err != nil {
				return err
			}
			if m.id != "" && !subjects.ValidToken(m.id) {
				return usagef("--call-id must be 1 to %d of A-Z a-z 0-9 _ -", subjects.MaxToken)
			}
			r := &subjects.AssembleRequest{Tools: json.RawMessage("[]"), Surface: subjects.Surface(s.surface)}
			if s.handle == "" && (s.sample || len(s.catalogs) > 0) {
				if r, err = a.request(cmd, &s); err != nil {
					return err
				}
			} else if err := oneOf("surface", s.surface, "link", "card", "side"); err != nil {
				return err
			}
			yes := true
			r.Connectors = &yes
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			scope := subjects.Handle(s.handle)
			if s.handle == "" {
				got, err := q.assemble(cmd.Context(), r)
				if err != nil {
					return a.refused(&c, err)
				}
				scope = subjects.Handle(got.Scope)
			}
			got, err := q.Connections(cmd.Context(), subjects.CallRequest{Scope: scope, CallID: m.id, Arguments: raw})
			if err != nil {
				return a.refused(&c, err)
			}
			return a.printLinked(&c, got)
		},
	}
	c.flags(cmd, 10*time.Minute)
	s.flags(cmd, true)
	f := cmd.Flags()
	f.StringVar(&m.id, "call-id", "", "the operation's id (default a new one)")
	if !local && action != "status" {
		f.StringVar(&m.alias, "alias", "", "which account of the app")
	}
	switch action {
	case "rename":
		f.StringVar(&m.to, "to", "", "the account's new alias")
	case "reconnect":
		f.BoolVar(&m.force, "force", false, "also where the app is connected")
	}
	return cmd
}

// arguments is what a model would write.
func (m *managing) arguments(action string, local bool, names []string) (json.RawMessage, error) {
	switch {
	case len(names) == 0 && local:
		return nil, usagef("no server: name one or more local MCP servers")
	case len(names) == 0 && action != "status":
		return nil, usagef("no app: name one or more; \"toolsearch connections status\" lists them")
	case action == "rename" && (len(names) != 1 || m.alias == "" || m.to == ""):
		return nil, usagef("rename takes one app, --alias for the account and --to for its new alias")
	case m.alias != "" && len(names) != 1:
		return nil, usagef("--alias goes with one app")
	}
	args := subjects.ConnectionsArguments{Action: action, Force: m.force}
	for _, n := range names {
		args.Connectors = append(args.Connectors, subjects.ConnectionTarget{Name: n, MCP: local, Alias: m.alias, To: m.to})
	}
	return subjects.Marshal(args)
}

func (a *app) printLinked(c *client, got *subjects.Linked) error {
	switch {
	case c.json:
		if err := a.exact(got.Raw); err != nil {
			return err
		}
	case got.Mistake != nil:
		a.out.Println(a.out.Bad("refused:"), got.Mistake.Message)
	case got.Status != nil:
		if err := a.printStatus(got.Status); err != nil {
			return err
		}
	case got.Outcome != nil:
		for _, t := range got.Outcome.Targets {
			a.printTarget("", t.State, title(t.Name, t.Alias), t.Detail)
			if t.ConnectURL != "" {
				a.out.Println("  open", a.out.Bold(t.ConnectURL))
			}
		}
		a.out.Println(a.out.Dim(got.Outcome.Note))
	default:
		return a.exact(got.Raw)
	}
	failed := func(t subjects.ConnectionResult) bool {
		return t.State != subjects.ConnectionConnected && t.State != subjects.ConnectionInitiated
	}
	if got.Mistake != nil || got.Status != nil && got.Status.Status != "" || got.Outcome != nil && slices.ContainsFunc(got.Outcome.Targets, failed) {
		return errNothing
	}
	return nil
}

func (a *app) printStatus(s *subjects.ConnectionsStatus) error {
	if len(s.Connectors) > 0 {
		t := table.New("APP", "STATE", "")
		for _, c := range s.Connectors {
			t.Row(c.Name, c.State, c.Detail)
		}
		if err := a.out.Table(t); err != nil {
			return err
		}
	}
	for _, u := range s.Unknown {
		a.out.Println(a.out.Bad("unknown:"), u.Name, strings.Join(u.DidYouMean, ", "))
	}
	a.out.Println(a.out.Dim(s.Hint))
	return nil
}

func title(name, alias string) string {
	if alias != "" {
		name += " (" + alias + ")"
	}
	return name
}

// printTarget tells how one app of an operation stands.
func (a *app) printTarget(indent string, s subjects.ConnectionState, name, rest string) {
	if rest = strings.TrimSpace(rest); rest != "" {
		rest = "  " + rest
	}
	a.out.Printf("%s%s  %s%s\n", indent, a.stateWord(s), name, rest)
}

// stateWord is a state in its colour.
func (a *app) stateWord(s subjects.ConnectionState) string {
	word := fmt.Sprintf("%-13s", s)
	switch s {
	case subjects.ConnectionConnected:
		return a.out.Good(word)
	case subjects.ConnectionFailed, subjects.ConnectionExpired:
		return a.out.Bad(word)
	}
	return a.out.Warn(word)
}

func (a *app) cards() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "cards",
		Short: "Show the cards of a session, as its interface would, until interrupted",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			cards, err := q.Cards(cmd.Context())
			if err != nil {
				return a.refused(&c, err)
			}
			now, err := q.Operation(cmd.Context())
			if err != nil {
				return a.refused(&c, err)
			}
			if now.Card != nil && now.Card.Event == subjects.EventCard {
				if err := a.printCard(&c, now.Card); err != nil {
					return err
				}
			}
			var last error
			for e, err := range cards {
				if cmd.Context().Err() != nil {
					return nil
				}
				if last = err; err != nil {
					if !errors.Is(err, nats.ErrConnectionClosed) {
						a.warn(message(err))
					}
					continue
				}
				if err := a.printCard(&c, &e); err != nil {
					return err
				}
			}
			return q.lost(last)
		},
	}
	c.watchFlags(cmd)
	return cmd
}

func (a *app) printCard(c *client, e *subjects.CardEvent) error {
	if c.json {
		body, err := subjects.Marshal(e)
		if err != nil {
			return err
		}
		return a.exact(body)
	}
	head := "card " + e.Operation
	if e.SettledBy != "" {
		head += ": " + string(e.SettledBy)
	}
	a.out.Println(a.out.Bold(head))
	for _, t := range e.Targets {
		a.printTarget("  ", t.State, title(t.Name, t.Alias), t.Detail+" "+t.ConnectURL)
	}
	return nil
}

func (a *app) answer() *cobra.Command {
	var c client
	var alias, operation string
	cmd := &cobra.Command{
		Use:   "answer <skip|retry|continue> [name]",
		Short: "Press a button of the session's card",
		Args:  takes(1, 2, "a button (skip, retry or continue) and the name of what it is for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			buttons := []string{subjects.AnswerSkip, subjects.AnswerRetry, subjects.AnswerContinue}
			if !slices.Contains(buttons, args[0]) {
				return usagef("%q is no button; it must be one of %q", args[0], buttons)
			}
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			r := subjects.AnswerRequest{Operation: operation, Answer: args[0], Alias: alias}
			if len(args) == 2 {
				r.Name = args[1]
			}
			if operation == "" {
				now, err := q.Operation(cmd.Context())
				if err != nil {
					return a.refused(&c, err)
				}
				if now.Card == nil {
					a.out.Println(a.out.Bad("refused:"), "no card is open in this session")
					return errNothing
				}
				r.Operation = now.Card.Operation
			}
			got, err := q.Answer(cmd.Context(), r)
			if err != nil {
				return a.refused(&c, err)
			}
			return a.told(&c, got, got.Refusal, func() error { return a.printCard(&c, got.Card) })
		},
	}
	c.flags(cmd, answerTimeout)
	cmd.Flags().StringVar(&alias, "alias", "", "the target's alias, where it has one")
	cmd.Flags().StringVar(&operation, "op", "", "the operation's id (default the session's own)")
	return cmd
}

// told prints an interface's answer: exactly, as a refusal, or in words.
func (a *app) told(c *client, reply any, refusal *subjects.Refusal, words func() error) error {
	var err error
	switch {
	case c.json:
		var body []byte
		if body, err = subjects.Marshal(reply); err == nil {
			err = a.exact(body)
		}
	case refusal != nil:
		a.out.Println(a.out.Bad("refused:"), refusal.Message, a.out.Dim("("+refusal.Code+")"))
	default:
		err = words()
	}
	if refusal != nil {
		err = errors.Join(err, errNothing)
	}
	return err
}

func (a *app) accounts() *cobra.Command {
	var c client
	var etag string
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "List the user's linked accounts",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			got, err := q.Accounts(cmd.Context(), etag)
			if err != nil {
				return a.refused(&c, err)
			}
			return a.told(&c, got, got.Refusal, func() error {
				if got.NotModified {
					a.out.Println("not modified")
					return nil
				}
				t := table.New("ID", "APP", "LABEL", "STATUS")
				for _, l := range got.Accounts {
					t.Row(l.ConnectionID, l.Connector, title(l.Label, l.Alias), l.Status)
				}
				if err := a.out.Table(t); err != nil {
					return err
				}
				a.out.Println(a.out.Dim("etag " + got.ETag))
				return nil
			})
		},
	}
	c.flags(cmd, answerTimeout)
	cmd.Flags().StringVar(&etag, "etag", "", "that of the list which is known already")
	return cmd
}

func (a *app) disconnect() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "disconnect <id>",
		Short: "End one of the user's accounts",
		Args:  takes(1, 1, "the id of an account, which \"connections accounts\" lists"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			got, err := q.Disconnect(cmd.Context(), args[0])
			if err != nil {
				return a.refused(&c, err)
			}
			return a.told(&c, got, got.Refusal, func() error {
				a.out.Println("disconnected:", args[0], a.out.Dim("audit "+got.AuditID))
				return nil
			})
		},
	}
	c.flags(cmd, answerTimeout)
	return cmd
}
