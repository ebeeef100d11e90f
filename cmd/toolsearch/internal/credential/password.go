package credential

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"toolsearch/subjects/roles"
)

// PasswordVariable is the environment variable from which a server takes the password of a role.
func PasswordVariable(r roles.Role) string { return "NATS_" + strings.ToUpper(string(r)) + "_PASSWORD" }

// Passwords writes a server's accounts with one user for each role, named like the role. Passwords are variables that
// the server reads from its environment; see [PasswordVariable].
func Passwords(n roles.Names) ([]byte, error) {
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Who may do what, by password. Written by "toolsearch token roles"; write it anew rather than edit it.
#
# One user for each role, for tenant %s, session %s and host %s.
# The server reads the passwords from its environment:
`, n.Tenant, n.Session, n.Host)
	for _, r := range roles.All() {
		fmt.Fprintf(&w, "#   %s\n", PasswordVariable(r))
	}
	w.WriteString("\naccounts {\n")
	for _, account := range roles.Accounts() {
		if err := writeAccount(&w, account, n); err != nil {
			return nil, err
		}
	}
	w.WriteString("}\n")
	return w.Bytes(), nil
}

func writeAccount(w *bytes.Buffer, account string, n roles.Names) error {
	fmt.Fprintf(w, "  %s {\n", account)
	if account == roles.Service {
		w.WriteString("    jetstream: enabled\n")
	}
	w.WriteString("    exports: [\n")
	for _, c := range roles.Crossings(n.Root, n.Bodies) {
		if c.From == account {
			fmt.Fprintf(w, "      {%s: %s, accounts: [%s]}\n", crossingKind(c), strconv.Quote(c.Subject), c.To)
		}
	}
	w.WriteString("    ]\n    imports: [\n")
	for _, c := range roles.Crossings(n.Root, n.Bodies) {
		if c.To == account {
			fmt.Fprintf(w, "      {%s: {account: %s, subject: %s}}\n", crossingKind(c), c.From, strconv.Quote(c.Subject))
		}
	}
	w.WriteString("    ]\n    users: [\n")
	for _, r := range roles.All() {
		if r.Account() != account {
			continue
		}
		p, err := r.Permissions(n)
		if err != nil {
			return err
		}
		writeUser(w, r, p)
	}
	w.WriteString("    ]\n  }\n")
	return nil
}

func crossingKind(c roles.Crossing) string {
	if c.Stream {
		return "stream"
	}
	return "service"
}

func writeUser(w *bytes.Buffer, r roles.Role, p roles.Permissions) {
	fmt.Fprintf(w, "      {\n        user: %s\n        password: $%s\n        permissions {\n", r, PasswordVariable(r))
	if len(p.Publish) == 0 {
		w.WriteString("          publish { deny: [\">\"] }\n")
	} else {
		writeSubjects(w, "publish", p.Publish)
	}
	writeSubjects(w, "subscribe", p.Subscribe)
	if p.Responses != nil {
		fmt.Fprintf(w, "          allow_responses { max: %d, expires: %q }\n", p.Responses.Max, p.Responses.Expires)
	}
	w.WriteString("        }\n      }\n")
}

func writeSubjects(w *bytes.Buffer, what string, subjects []string) {
	fmt.Fprintf(w, "          %s { allow: [\n", what)
	for _, s := range subjects {
		fmt.Fprintf(w, "            %s\n", strconv.Quote(s))
	}
	w.WriteString("          ] }\n")
}
