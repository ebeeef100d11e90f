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

// with puts a member at the end, or in the place of the one that has its key.
func (o Ordered[V]) with(key string, v V) Ordered[V] {
	for i := range o {
		if o[i].Key == key {
			o[i].Value = v
			return o
		}
	}
	return append(o, Pair[V]{key, v})
}

// UnmarshalJSON reads an object and keeps the order of its members. Of a key that comes twice the last value stays, in
// the first one's place.
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
		out = out.with(k.(string), v)
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	*o = out
	return nil
}
