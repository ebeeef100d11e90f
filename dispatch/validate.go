package dispatch

import (
	"encoding/json"
	"strconv"
	"strings"

	"toolsearch/subjects"
)

// Checked is arguments that may be sent.
type Checked struct {
	// Arguments is the repaired object: see [Coerce].
	Arguments json.RawMessage
	// Unchecked says, for a log, why the arguments were not validated; "" if they were. A tool without a schema, a
	// schema that is broken, refers outside itself or passes a bound lets every call go ahead.
	Unchecked string
}

// Validate repairs arguments (see [Coerce]) and checks them against the parameter schema of the tool of that name.
//
//   - Every name in the schema's own required list must be there; null counts as there.
//   - Then JSON Schema decides: the draft that $schema names, 2020-12 without one. format is not asserted, OpenAPI's
//     nullable is understood, 5.0 is an integer, 1 and true differ.
//   - Nothing is ever fetched. A schema that cannot be used lets the call go ahead, and [Checked.Unchecked] says why.
//
// The error is a [*Refusal] for arguments that do not match, and a [*subjects.ToolError] for arguments that are not
// one JSON object.
func Validate(name string, parameters, arguments json.RawMessage) (Checked, error) {
	object, err := canonical(arguments, MaxDepth)
	if err != nil {
		return Checked{}, malformed(err, textArgumentsJSON(name, err))
	}
	if object[0] != '{' {
		return Checked{}, &subjects.ToolError{Message: textArgumentsObject(name)}
	}
	return check(name, parameters, object)
}

// check is [Validate] for an object that is canonical already.
func check(name string, parameters json.RawMessage, object []byte) (Checked, error) {
	if len(parameters) == 0 {
		return Checked{Arguments: object, Unchecked: "the tool has no schema"}, nil
	}
	s := schemas.of(parameters)
	done := Checked{Arguments: s.coerce(object)}
	if missing := lacking(done.Arguments, s.required); len(missing) > 0 {
		return Checked{}, &Refusal{
			Message:    textMissing(name, missing),
			Path:       pathRoot,
			Constraint: "required",
			Parameters: parameters,
			Hint:       textValidateHint,
		}
	}
	failed, arguments, err := s.fails(done.Arguments)
	if err != nil {
		done.Unchecked = err.Error()
		return done, nil
	}
	if failed == nil {
		return done, nil
	}
	path := renderPath(arguments, failed.path)
	return Checked{}, &Refusal{
		Message:    textInvalid(name, path, failed.keyword, s.detail(*failed, arguments)),
		Path:       path,
		Constraint: failed.keyword,
		Parameters: parameters,
		Hint:       textValidateHint,
	}
}

// lacking lists the required names that are no keys of an object.
func lacking(object []byte, required []string) []string {
	if len(required) == 0 {
		return nil
	}
	e := editor{text: object}
	keys := e.keys(0)
	var missing []string
	for _, name := range required {
		if !keys[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// fails validates an object and returns the failure to tell, nil if there is none, and the decoded arguments; or why
// it was not validated.
func (s *schema) fails(object []byte) (*failure, any, error) {
	if s.broken != nil {
		return nil, nil, s.broken
	}
	depth, values := measure(object)
	if values > maxArgumentValues || values*s.enumerated > maxComparisons || depth*s.chain > maxStack {
		return nil, nil, errArgs
	}
	arguments, _ := decode(object, 0)
	tree, err := s.run(arguments, allowance(values, depth))
	if err != nil || tree == nil {
		return nil, nil, err
	}
	p := picker{schema: s.tree, arguments: arguments}
	chosen, ok := p.pick(tree)
	if !ok {
		return nil, nil, errEndless
	}
	return &chosen, arguments, nil
}

// decode turns the value at pos of a valid JSON text into what the schema library reads, and returns the offset after it.
func decode(text []byte, pos int) (any, int) {
	k := kindAt(text, pos)
	switch k {
	case kindObject:
		object := map[string]any{}
		end := eachMember(text, pos, func(key span, pos int) int {
			v, end := decode(text, pos)
			object[unquote(text[key.start:key.end])] = v
			return end
		})
		return object, end
	case kindArray:
		array := []any{}
		end := eachElement(text, pos, func(pos int) int {
			v, end := decode(text, pos)
			array = append(array, v)
			return end
		})
		return array, end
	}
	end := skipValue(text, pos)
	switch k {
	case kindString:
		return unquote(text[pos:end]), end
	case kindNumber:
		return json.Number(comparableNumber(string(text[pos:end]))), end
	case kindNull:
		return nil, end
	}
	return k == kindTrue, end
}

// at follows a path into decoded arguments.
func at(v any, path []string) (any, bool) {
	for _, token := range path {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// isType reports whether a decoded value is of a type of JSON Schema.
func isType(v any, word string) bool {
	switch v := v.(type) {
	case nil:
		return word == "null"
	case bool:
		return word == "boolean"
	case string:
		return word == "string"
	case []any:
		return word == "array"
	case map[string]any:
		return word == "object"
	case json.Number:
		if word == "integer" {
			_, whole, _ := readNumber(v.String())
			return whole
		}
		return word == "number"
	}
	return false
}

// typeName is the type of a decoded value.
func typeName(v any) string {
	for _, word := range []string{"null", "boolean", "string", "array", "object", "integer", "number"} {
		if isType(v, word) {
			return word
		}
	}
	return "number"
}

// pathRoot is the path of the arguments themselves.
const pathRoot = "arguments"

// renderPath writes a path as a programmer would.
func renderPath(arguments any, path []string) string {
	b := []byte(pathRoot)
	for i, token := range path {
		parent, _ := at(arguments, path[:i])
		if _, array := parent.([]any); array {
			b = append(append(append(b, '['), token...), ']')
			continue
		}
		if isIdentifier(token) {
			b = append(append(b, '.'), token...)
			continue
		}
		b = append(subjects.AppendString(append(b, '['), token), ']')
	}
	return string(b)
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', i > 0 && '0' <= c && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// detail says in words what failed.
func (s *schema) detail(f failure, arguments any) string {
	got, _ := at(arguments, f.path)
	node, want := s.tree.at(f.pointer()).get(f.keyword), ""
	if node != nil {
		want = clipRunes(string(withoutTicks(node).append(nil)), maxDetail)
	}
	switch f.keyword {
	case "type":
		if node == nil {
			return "it is of the wrong type"
		}
		return "it is of type " + typeName(got) + ", not " + wantedTypes(node)
	case "enum":
		return "it must be one of " + want
	case "const":
		return "it must be " + want
	case "required", "dependentRequired", "dependencies":
		return "it lacks " + quotedList(f.names)
	case "additionalProperties", "unevaluatedProperties":
		return quotedList(f.names) + " is not among its properties"
	case "pattern":
		return "it must match the pattern " + want
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return "it breaks " + f.keyword + " " + want
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return "its size breaks " + f.keyword + " " + want
	case "uniqueItems":
		return "its items must differ from each other"
	case "anyOf", "oneOf":
		return "it does not match the allowed forms " + want
	case "not":
		return "it has a form that is not allowed: " + want
	case "contains", "minContains", "maxContains":
		return "it has too few or too many items of the form that " + f.keyword + " asks for"
	}
	return "it breaks " + f.keyword + " " + want
}

// wantedTypes lists the words of a schema's type.
func wantedTypes(t *value) string {
	if t.kind == kindString {
		return t.text
	}
	return strings.Join(t.strings(), " or ")
}
