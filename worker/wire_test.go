package worker

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/tools/txtar"

	"toolsearch/subjects"
)

var update = flag.Bool("update", false, "write the replies of the wire transcripts anew")

// Each transcript is a conversation with a worker as it goes over the wire: a file named "> <subject>" is sent, header
// lines first, then an empty line and the body; the file named "<" after it is the reply that has to come, headers
// sorted. In a request, $scope and $catalog stand for those of the last assemble's reply.
func TestWireTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b := setup(t, Options{})
			out := &txtar.Archive{Comment: a.Comment}
			vars := strings.NewReplacer()
			for i, f := range a.Files {
				subject, isRequest := strings.CutPrefix(f.Name, "> ")
				if !isRequest {
					continue
				}
				header, body, _ := bytes.Cut(f.Data, []byte("\n\n"))
				reply := b.send(subject, readHeader(t, header), vars.Replace(strings.TrimSuffix(string(body), "\n")))
				if v := namesIn(reply.Data); v != nil {
					vars = strings.NewReplacer(v...)
				}
				got := writeReply(reply)
				out.Files = append(out.Files, f, txtar.File{Name: "<", Data: got})
				if *update {
					continue
				}
				if i+1 >= len(a.Files) || a.Files[i+1].Name != "<" {
					t.Fatalf("%s has no reply in the transcript; write it with -update", subject)
				}
				if want := a.Files[i+1].Data; !bytes.Equal(got, want) {
					t.Errorf("%s replied\n%s\nwant\n%s", subject, got, want)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func readHeader(t *testing.T, p []byte) nats.Header {
	t.Helper()
	h := nats.Header{}
	for line := range strings.Lines(string(p)) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			t.Fatalf("no header line: %q", line)
		}
		h[key] = append(h[key], value)
	}
	return h
}

var expiry = regexp.MustCompile(`"expires_at":"[^"]*"`)

// namesIn is the variables that an assemble's reply sets.
func namesIn(body []byte) []string {
	m := regexp.MustCompile(`^\{"scope":"([^"]+)","catalog":"([^"]+)"`).FindSubmatch(body)
	if m == nil {
		return nil
	}
	return []string{"$scope", string(m[1]), "$catalog", string(m[2])}
}

func writeReply(m *nats.Msg) []byte {
	var b bytes.Buffer
	var lines []string
	for key, values := range m.Header {
		for _, v := range values {
			if key == subjects.HeaderRetryAfter {
				v = "<milliseconds>"
			}
			lines = append(lines, fmt.Sprintf("%s: %s\n", key, v))
		}
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, "") + "\n")
	b.Write(expiry.ReplaceAll(m.Data, []byte(`"expires_at":"<time>"`)))
	b.WriteByte('\n')
	return b.Bytes()
}
