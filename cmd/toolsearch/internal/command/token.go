package command

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/credential"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

// fleetDir is where `token setup` writes and `token <role>` reads unless a flag says otherwise.
const fleetDir = "fleet"

func (a *app) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make credentials for a bus: accounts, signing keys, and a user's file",
		Long: `Token makes what a NATS server and its users need to tell who is who. Nothing of it connects to a server.

For a fleet: setup once, include its resolver.conf in every server, then mint a file for each user. For a laptop: roles.
deploy/nats/README.md shows both.

` + exitHelp,
		Example: `  toolsearch token setup --dir fleet
  toolsearch token runtime --tenant acme --session desktop-1 --out desktop-1.creds
  toolsearch token worker --out worker.creds`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenSetup(), a.tokenRoles())
	for _, r := range roles.All() {
		cmd.AddCommand(a.tokenMint(r))
	}
	return cmd
}

func (a *app) tokenSetup() *cobra.Command {
	var dir, root string
	var rotate []string
	var bodies, asJSON bool
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make the accounts and signing keys of a fleet",
		Long: `Setup makes, in a folder, the keys that are missing and resolver.conf, which every server includes. Repeat it after an
upgrade: it keeps the keys and writes the permissions of this version. --rotate gives a role a new signing key; once the
servers have read the new resolver.conf, what the old key signed is refused.

The folder holds secrets. Keep keys/operator.nk and keys/account-*.nk offline; give whoever mints credentials of a role
that role's file alone. No secret is printed.

` + exitHelp,
		Example: `  toolsearch token setup --dir fleet
  toolsearch token setup --dir fleet --rotate runtime`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return usagef("--dir is empty; leave it out for the folder %s", fleetDir)
			}
			o := credential.SetupOptions{Root: subjects.Root(root), Bodies: bodies}
			for _, r := range rotate {
				if !slices.Contains(roles.All(), roles.Role(r)) {
					return usagef("--rotate %q is no role; there are %v", r, roles.All())
				}
				o.Rotate = append(o.Rotate, roles.Role(r))
			}
			done, err := credential.Setup(dir, o)
			if err != nil {
				return usageError{err}
			}
			if asJSON {
				return a.object(done)
			}
			for _, path := range done.Made {
				a.out.Println("made", path)
			}
			a.out.Printf("%d keys were there already\n", len(done.Kept))
			a.out.Println("wrote", done.Resolver+"; include it in every server's auth.conf, then reload the servers")
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", fleetDir, "folder of the fleet's keys")
	f.StringVar(&root, "root", string(subjects.DefaultRoot), "first part of every subject")
	f.BoolVar(&bodies, "bodies", false, "also make keys for users that may use their tenant's bucket of large bodies")
	f.StringSliceVar(&rotate, "rotate", nil, "roles whose signing keys are replaced")
	f.BoolVar(&asJSON, "json", false, "print what was done as JSON")
	return cmd
}

func (a *app) tokenRoles() *cobra.Command {
	var n roles.Names
	var root string
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print a server's accounts with one user and password for each role",
		Long: `Roles prints what deploy/nats/roles.conf is: the accounts of a server, with one user for each role. The passwords are
not in it; the server reads them from its environment.

` + exitHelp,
		Example: `  toolsearch token roles > deploy/nats/roles.conf
  toolsearch token roles --tenant acme --session desktop-1 --host mcp-1 --bodies`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			n.Root = subjects.Root(root)
			conf, err := credential.Passwords(n)
			if err != nil {
				return usageError{err}
			}
			_, err = a.out.Write(conf)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", string(subjects.DefaultRoot), "first part of every subject")
	f.StringVar(&n.Tenant, "tenant", "default", "tenant of the runtime, the orchestrator and the host")
	f.StringVar(&n.Session, "session", "cli", "session of the runtime")
	f.StringVar(&n.Host, "host", "tools-1", "name of the tool host")
	f.BoolVar(&n.Bodies, "bodies", false, "open the tenant's bucket of large bodies to them")
	return cmd
}

func (a *app) tokenMint(r roles.Role) *cobra.Command {
	var g credential.Grant
	var keyFile, out string
	var ttl time.Duration
	var bodies bool
	names := map[string]*string{"tenant": &g.Tenant, "session": &g.Session, "host": &g.Host}
	line := "toolsearch token " + string(r)
	for _, need := range r.Needs() {
		line += " --" + need + " " + map[string]string{"tenant": "acme", "session": "desktop-1", "host": "mcp-1"}[need]
	}
	cmd := &cobra.Command{
		Use:   string(r),
		Short: "Mint the credentials of " + mintShort[r],
		Long: "Mint prints a credentials file for --creds: a token signed by the role's key, and the seed of a new user. " +
			"They are kept\nnowhere else. " + mintLong[r] + "\n\n" + exitHelp,
		Example: "  " + line + " --out " + string(r) + ".creds\n  " + line + " --ttl 1h --key keys/" + string(r) + ".json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, need := range r.Needs() {
				if *names[need] == "" {
					return usagef("--%s is missing", need)
				}
				// As everything that asks does, so that an id of any form has one token.
				*names[need] = subjects.Token(*names[need])
			}
			if ttl < 0 {
				return usagef("--ttl must not be negative; 0 is without end")
			}
			if keyFile == "" {
				keyFile = credential.KeyFile(fleetDir, r, bodies)
			}
			key, err := untilEnd(cmd.Context(), func() (*credential.Key, error) { return credential.LoadKey(keyFile) })
			switch {
			case errors.Is(err, errInterrupted):
				return err
			case err != nil:
				return usageError{err}
			}
			if key.Role != r || key.Bodies != bodies {
				return usagef("%s signs %s, not %s", keyFile, mintName(key.Role, key.Bodies), mintName(r, bodies))
			}
			if ttl > 0 {
				g.Expires = time.Now().Add(ttl)
			}
			creds, err := key.Mint(g)
			if err != nil {
				return err
			}
			if err := a.deliver(out, creds); err != nil {
				return err
			}
			until := "without end"
			if ttl > 0 {
				until = "until " + g.Expires.Format("2006-01-02 15:04:05 MST")
			}
			a.err.Println(a.err.Dim(strings.Join(append([]string{string(r)}, named(r, names)...), " ") + ", " + until))
			return nil
		},
	}
	f := cmd.Flags()
	for _, need := range r.Needs() {
		f.StringVar(names[need], need, "", need+" of the "+string(r))
	}
	f.StringVar(&keyFile, "key", "", "signing key of the role (default "+credential.KeyFile(fleetDir, r, false)+")")
	f.StringVar(&out, "out", "", "file to write instead of standard output, for its owner alone")
	f.DurationVar(&ttl, "ttl", mintTTL(r), "how long they hold; 0 is without end")
	if r.HasBodies() {
		f.BoolVar(&bodies, "bodies", false, "also open the tenant's bucket of large bodies (see setup --bodies)")
	}
	return cmd
}

var mintShort = map[roles.Role]string{
	roles.Runtime:      "one session",
	roles.Interface:    "the user's interface of one session",
	roles.Orchestrator: "an orchestrator of one tenant",
	roles.Host:         "one tool host of one tenant",
	roles.Worker:       "a worker",
	roles.Operator:     "an operator",
}

var mintLong = map[roles.Role]string{
	roles.Runtime: `A runtime may send requests and stops of its own session,
read its own results and answer its own policy's questions. Nothing else of the bus is open to it.`,
	roles.Interface: `An interface may see its session's cards, press
their buttons, and list and end its user's accounts. Give it to no process that a model runs in.`,
	roles.Orchestrator: `An orchestrator may assemble and stop for every
session of its tenant, and read their results.`,
	roles.Host:   "A host may answer the calls of its own tools.",
	roles.Worker: "A worker answers for all tenants and keeps everything\nin JetStream.",
	roles.Operator: `An operator makes the streams (toolsearch init), looks
after jobs (toolsearch jobs) and may use all of JetStream's API.`,
}

// mintTTL is a day for what a person or a session carries, and a quarter for what a deployment mounts and replaces.
func mintTTL(r roles.Role) time.Duration {
	if r == roles.Worker || r == roles.Host || r == roles.Orchestrator {
		return 90 * 24 * time.Hour
	}
	return 24 * time.Hour
}

func mintName(r roles.Role, bodies bool) string {
	if bodies {
		return string(r) + " with --bodies"
	}
	return string(r) + " without --bodies"
}

func named(r roles.Role, names map[string]*string) []string {
	var out []string
	for _, need := range r.Needs() {
		out = append(out, *names[need])
	}
	return out
}

// deliver writes to a file for its owner alone, or to standard output.
func (a *app) deliver(path string, p []byte) error {
	if path == "" {
		_, err := a.out.Write(p)
		return err
	}
	if i, err := os.Stat(path); err == nil && i.IsDir() {
		return usagef("--out %s is a folder", path)
	}
	if err := credential.WriteSecret(path, p); err != nil {
		return usageError{err}
	}
	return nil
}
