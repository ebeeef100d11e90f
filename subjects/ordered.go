package subjects

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Pair is one member of an [Ordered] object.
type Pair[V any] struct {
	Key   string
	Value V
}

// Ordered is a JSON object whose members keep their order, as a model reads them. Keys are unique by construction.
type Ordered[V any] []Pair[V]

// Get returns the value under key.
func (o Ordered[V]) Get(key string) (v V, ok bool) {
	for _, p := range o {
		if p.Key == key {
			return p.Value, true
		}
	}
	return v, false
}

// Keys lists the keys in order.
func (o Ordered[V]) Keys() []string {
	out := make([]string, len(o))
	for i, p := range o {
		out[i] = p.Key
	}
	return out
}

// MarshalJSON writes the members in order.
func (o Ordered[V]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(AppendString(nil, p.Key))
		b.WriteByte(':')
		v, err := Marshal(p.Value)
		if err != nil {
			return nil, err
		}
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object and keeps the order of its members.
func (o *Ordered[V]) UnmarshalJSON(p []byte) error {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t == nil {
		*o = nil
		return nil
	}
	if t != json.Delim('{') {
		return fmt.Errorf("subjects: want an object, got %v", t)
	}
	out := Ordered[V]{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return err
		}
		var v V
		if err := d.Decode(&v); err != nil {
			return err
		}
		out = append(out, Pair[V]{k.(string), v})
	}
	*o = out
	return nil
}
