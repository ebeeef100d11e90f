package toolhost

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func answer(n int) *subjects.HostReply {
	return &subjects.HostReply{Result: json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)}
}

func TestKeyTableBounds(t *testing.T) {
	t.Parallel()
	table := newKeyTable(time.Hour, 5, 100)
	now := time.Unix(0, 0)
	table.now = func() time.Time { return now }
	print := [32]byte{1}
	running, mine := table.claim("running", print)
	if !mine {
		t.Fatal("a new key is somebody else's")
	}
	for i := range 4 {
		e, _ := table.claim(fmt.Sprint(i), print)
		table.settle(e, answer(40))
	}
	reply := func(key string) *subjects.HostReply {
		t.Helper()
		e, mine := table.claim(key, print)
		if mine {
			table.drop(e, notBegun())
			return nil
		}
		return e.reply
	}
	// 100 bytes hold two answers; the older keys are known and not run again.
	for i, want := range []bool{false, false, true, true} {
		if got := reply(fmt.Sprint(i)); got == nil || (got.Result != nil) != want || !want && got != forgotten {
			t.Errorf("key %d: %+v", i, got)
		}
	}
	// Five keys are kept; the oldest go, but never one that runs.
	for i := 4; i < 6; i++ {
		e, _ := table.claim(fmt.Sprint(i), print)
		table.settle(e, answer(10))
	}
	if reply("0") != nil || reply("5") == nil || len(table.entries) != 5 {
		t.Errorf("%d keys; the oldest %v, the newest %v", len(table.entries), reply("0"), reply("5"))
	}
	if e, mine := table.claim("running", print); mine || e != running {
		t.Error("the key that runs is gone")
	}
	now = now.Add(time.Hour)
	if reply("5") != nil {
		t.Error("a key outlives its age")
	}
	if e, mine := table.claim("running", print); mine || e != running {
		t.Error("the key that runs ended with its age")
	}
	table.settle(running, answer(1000)) // larger than all of the room: kept until the next one comes
	if got := running.reply; got.Result == nil {
		t.Errorf("got %+v", got)
	}
}

// Whatever is claimed, settled and dropped in whatever order: the books stay right.
func TestKeyTableBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxKeys, maxBytes := rapid.IntRange(1, 5).Draw(t, "keys"), rapid.Int64Range(1, 60).Draw(t, "bytes")
		table := newKeyTable(10*time.Second, maxKeys, maxBytes)
		now := time.Unix(0, 0)
		table.now = func() time.Time { return now }
		var running []*keyEntry
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				if e, mine := table.claim(rapid.StringMatching("[a-f]").Draw(t, "key"), [32]byte{}); mine {
					running = append(running, e)
				}
			case 1, 2:
				if len(running) == 0 {
					continue
				}
				e := running[0]
				running = running[1:]
				if rapid.Bool().Draw(t, "settles") {
					table.settle(e, answer(rapid.IntRange(2, 30).Draw(t, "size")))
				} else {
					table.drop(e, notBegun())
				}
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "seconds")) * time.Second)
			}
			var bytes int64
			for el := table.answers.Front(); el != nil; el = el.Next() {
				bytes += size(el.Value.(*keyEntry).reply)
			}
			if table.bytes != bytes || table.order.Len() != len(table.entries) || table.answers.Len() > len(table.entries) {
				t.Fatalf("%d bytes counted, %d there; %d keys, %d in order, %d answers", table.bytes, bytes, len(table.entries), table.order.Len(), table.answers.Len())
			}
			if bytes > maxBytes && table.answers.Len() > 1 || len(table.entries) > maxKeys+len(running)+1 {
				t.Fatalf("%d bytes in %d answers, %d keys of which %d run: over the bounds", bytes, table.answers.Len(), len(table.entries), len(running))
			}
		}
	})
}
