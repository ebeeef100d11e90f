package dispatch

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Every text that a model reads from the front half stands here. Its reader acts on it at once: what was wrong, that
// nothing ran, one next step.

const (
	// MaxErrorText is the longest error text, in characters, before the note that it was cut.
	MaxErrorText = 2048
	// maxDetail is the longest account of what is wrong with an argument, in characters.
	maxDetail = 600
	// maxEcho is the longest arguments that are repeated to the model, in characters.
	maxEcho = 1500
	// maxShownName is how much of a name is repeated to the model, in characters.
	maxShownName = 256

	textCut = " … (cut here)"

	// textValidateHint is the next step after a [Refusal].
	textValidateHint = "Correct the arguments to match the schema in `parameters` and call again."

	textCallsShape = "`calls` must be an array with at least one {\"name\": ..., \"arguments\": {...}}. " +
		"Nothing was run; send it in that form."

	textNoConnectors = "Connectors are not available in this session. Nothing was run; use tool_search for what is."
)

// textCallsMissing is told where neither calls nor a name was given.
const textCallsMissing = "`calls` is missing. Nothing was run; send {\"calls\": [{\"name\": ..., \"arguments\": {...}}]}."

func textCallsJSON(why error) string {
	return Bounded(fmt.Sprintf("`calls` is not valid JSON (%s). "+
		"Nothing was run; send an array of {\"name\", \"arguments\"}.", why))
}

// textDepth is told for arguments that are nested without measure.
var textDepth = fmt.Sprintf("The arguments are nested deeper than %d levels. Nothing was run; send flatter ones.", MaxDepth)

func textEntryObject(i int) string {
	return fmt.Sprintf("calls[%d] must be an object {\"name\": ..., \"arguments\": {...}}. "+
		"Nothing was run; send it in that form.", i)
}

func textEntryName(i int) string {
	return fmt.Sprintf("calls[%d] has no name. Nothing was run; name the tool exactly as tool_search gave it.", i)
}

func textEntryBridge(i int, name string) string {
	return fmt.Sprintf("calls[%d] names %s, which is itself a bridge tool. Nothing was run; call it directly.", i, name)
}

func textEntryArgumentsJSON(i int, why error) string {
	return Bounded(fmt.Sprintf("calls[%d].arguments is not valid JSON (%s). Nothing was run; send an object.", i, why))
}

func textEntryArgumentsObject(i int) string {
	return fmt.Sprintf("calls[%d].arguments must be an object. Nothing was run; send {} where there are none.", i)
}

func textArgumentsJSON(name string, why error) string {
	return Bounded(fmt.Sprintf("The arguments of %s are not valid JSON (%s). Nothing was run; send an object.", shown(name), why))
}

func textArgumentsObject(name string) string {
	return Bounded(fmt.Sprintf("The arguments of %s must be an object. Nothing was run; send {} where there are none.", shown(name)))
}

// textLocalBatch shows the call that is valid: first, as JSON, stands for it.
func textLocalBatch(n int, first string) string {
	return Bounded(fmt.Sprintf("A call takes one entry for a tool of this session, and %d were sent; none ran. "+
		"Send %s, then the remaining %d one by one. "+
		"Only names that begin with connectors__ may share a call.", n, first, n-1))
}

func textBatchCap(n int) string {
	return fmt.Sprintf("%d calls are more than the %d that go together. "+
		"Nothing was run; send fewer, and the rest in another call.", n, MaxBatch)
}

func textMissing(name string, missing []string) string {
	return Bounded(fmt.Sprintf("The call to %s lacks the required %s. The tool was not invoked.",
		shown(name), quotedList(missing)))
}

func textInvalid(name, path, constraint, detail string) string {
	return Bounded(fmt.Sprintf("The call to %s fails at %s (%s): %s. The tool was not invoked.",
		shown(name), path, constraint, clipDetail(detail)))
}

// shown is a name in single quotes, cut if it is longer than any real one.
func shown(name string) string { return "'" + clipRunes(name, maxShownName) + "'" }

// quotedList is names in single quotes.
func quotedList(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i == 20 {
			b.WriteString(" and " + strconv.Itoa(len(names)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + clipRunes(name, maxShownName) + "'")
	}
	return b.String()
}

// clipDetail puts a detail on one line of at most [maxDetail] characters.
func clipDetail(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if cut := firstRunes(s, maxDetail); len(cut) < len(s) {
		return firstRunes(s, maxDetail-3) + "..."
	}
	return s
}

// clipRunes cuts a text to n characters and marks the cut.
func clipRunes(s string, n int) string {
	if cut := firstRunes(s, n); len(cut) < len(s) {
		return cut + "…"
	}
	return s
}

func firstRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < len(s); n-- {
		if n == 0 {
			return s[:i]
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s
}

// Bounded cuts a text after [MaxErrorText] characters and says so.
func Bounded(text string) string {
	if cut := firstRunes(text, MaxErrorText); len(cut) < len(text) {
		return cut + textCut
	}
	return text
}
