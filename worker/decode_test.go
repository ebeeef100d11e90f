package worker

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// FuzzDecodeBridge checks that the fast way of reading a request reads it as encoding/json does, and only reads what
// that takes. Bodies that are no UTF-8 do not come so far.
func FuzzDecodeBridge(f *testing.F) {
	for _, body := range []string{
		`{"scope":"sha256:ab","arguments":{"queries":["send mail"]},"call_id":"c1","search_streak":"3:1"}`,
		` { "arguments" : [1, 2e3, null] , "scope" : {"tools":[]} } `,
		`{"call_id":"c\u0031"}`, `{"call_id":null}`, `{"call_id":7}`, `{"Scope":"x"}`, `{"scope":"a","scope":"b"}`, `{"scope":1} {}`,
		`{"arguments":{"a":}}`, `{"call_id":"a","call_id":7}`, `{"sc\u006fpe":"a"}`, `{"more":1,"call_id":"é"}`, `{}`, `[]`, `null`, ``, `{"scope":`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) {
			t.Skip()
		}
		got, ok := readBridge(body)
		if !ok {
			return
		}
		var want bridgeRequest
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is read, though %v", body, err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("%q: got %+v, want %+v", body, *got, want)
		}
	})
}

// TestReadBridgeIsTaken checks that requests as clients write them go the fast way.
func TestReadBridgeIsTaken(t *testing.T) {
	t.Parallel()
	for _, body := range []string{search("sha256:ab", "send mail"), `{"scope":{"tools":[]},"call_id":"c1","arguments":{}}`} {
		if _, ok := readBridge([]byte(body)); !ok {
			t.Errorf("%s is left to the slower way", body)
		}
	}
}
