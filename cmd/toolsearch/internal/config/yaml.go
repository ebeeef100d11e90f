package config

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML writes the settings as a file that [Load] reads back to equal settings, with a comment on each, secrets left
// out.
func (s Settings) YAML() ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		if err := put(top, k.path, s.printed(k), k.doc); err != nil {
			return nil, err
		}
		if k.path == "root" { // the product page's own section stands first
			if err := s.putToolSearch(top); err != nil {
				return nil, err
			}
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return b.Bytes(), e.Close()
}

// printed is a key's value for people: a secret that is set is hidden, one that is not stays empty, and what was left
// out stays null.
func (s Settings) printed(k key) any {
	v := k.get(&s)
	if text, ok := v.(string); ok && k.secret && text != "" {
		return redacted
	}
	if list, ok := v.([]string); ok && list == nil {
		return nil
	}
	return v
}

// put sets a dotted path below a mapping, making the sections on the way.
func put(at *yaml.Node, path string, v any, doc string) error {
	name, rest, more := strings.Cut(path, ".")
	if more {
		return put(section(at, name), rest, v, doc)
	}
	value := new(yaml.Node)
	if err := value.Encode(v); err != nil {
		return fmt.Errorf("write the setting %s: %w", path, err)
	}
	if value.Kind == yaml.SequenceNode {
		value.Style = yaml.FlowStyle
	}
	head := &yaml.Node{Kind: yaml.ScalarNode, Value: name, HeadComment: doc}
	at.Content = append(at.Content, head, value)
	return nil
}

// section finds or makes the mapping under a name.
func section(at *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(at.Content); i += 2 {
		if at.Content[i].Value == name {
			return at.Content[i+1]
		}
	}
	below := &yaml.Node{Kind: yaml.MappingNode}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, below)
	return below
}

// Redact is an address, or several with commas between them, without what may be a secret in it.
func Redact(address string) string { return redactURL(address) }
