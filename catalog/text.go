package catalog

import (
	"fmt"
	"strconv"
	"strings"
)

// Every text that a model reads from this package stands here. Its reader acts on it at once, so each says what was
// wrong, that nothing ran where nothing ran, and the one next step. The texts of the bridge tools are paid for on
// every turn of the model: keep them short.

const (
	// MaxErrorText is the longest text of a mistake, in characters, before the note that it was cut.
	MaxErrorText = 2048

	textTruncated = " … (the rest of this message was cut)"

	// maxEchoedName is how much of a name the model wrote is repeated to it, in characters.
	maxEchoedName = 256
)

// The descriptions of the bridge tools and of their parameters.
const (
	textSearchLeadNone = "Finds tools of the user's remote connectors, which are loaded on demand."

	textSearchBody = " Send several queries in one call, one for each capability you need, and write each as a few keywords " +
		"(service, action, object) and not as a sentence: a word that no tool has empties the answer. " +
		"Then read a match with tool_describe and run it with tool_call. Tools that you see already need no search."

	textSearchConnections = " Names that begin with connectors__ work in the user's remote accounts; manage_connections checks and links those."

	textSearchConnectionsSide = " Names that begin with connectors__ work in the user's remote accounts; only the main agent links those."

	textSearchFrameListed = "Everything deferred is listed here. A listed name exists: go straight to tool_describe with it."
	textSearchFrameMixed  = textSearchFrameListed + " Where it says \"names not listed\", search that server."
	textSearchFrameGroups = "These servers are connected. Search before you call a capability missing or take another tool in its place."

	textSearchQueries = "Keyword queries, for example [\"github create issue\", \"slack post message\"]. A lone string is one query. At most 7."
	textSearchLimit   = "Matches for each query: 5 unless given, 25 at most."

	textDescribe      = "Loads the full schemas of deferred tools. Use it before you call a tool whose parameters you have not read."
	textDescribeNames = "Exact tool names from a search or the listing, all that you need at once. At most 10."

	textCall = "Runs deferred tools, with the same hooks and approvals as any other tool. One entry for a tool of this session; " +
		"only names that begin with connectors__ may share a call. Results come in the order of the entries."
	textCallCalls = "The calls, for example [{\"name\": \"...\", \"arguments\": {}}]."
	textCallName  = "The tool's exact name."
	textCallArgs  = "The tool's own arguments, as its schema wants them."
)

// textSearchLead opens the description of tool_search.
func textSearchLead(deferred int) string {
	switch deferred {
	case 0:
		return textSearchLeadNone
	case 1:
		return "Finds tools that are loaded on demand: 1 more is available."
	}
	return "Finds tools that are loaded on demand: " + strconv.Itoa(deferred) + " more are available."
}

// textListingTotals stands for the whole listing where not even a line for each server fits.
func textListingTotals(servers, tools int) string {
	return plural(servers, "server") + ", " + plural(tools, "tool") + ": find them with `tool_search`"
}

// The mistakes in the lists that tool_search and tool_describe take.

func textListType(argument string) string {
	return fmt.Sprintf("%q must be an array of strings, such as {%q: [\"...\"]}. Nothing was looked up; send it in that form.", argument, argument)
}

func textListEmpty(argument string) string {
	return fmt.Sprintf("%q is empty or holds nothing but blanks. Nothing was looked up; send at least one string that is not blank.", argument)
}

func textListCap(argument string, n, most int) string {
	return fmt.Sprintf("%d are too many %s, at most %d go in one call. Nothing was looked up; send fewer and the rest in another call.", n, argument, most)
}

func textItemTooLong(argument string, n, most int) string {
	return fmt.Sprintf("An item of %q has %d characters, at most %d are read. Nothing was looked up; send a short one.", argument, n, most)
}

func textArguments(why error) string {
	return bounded("The arguments are not a JSON object (" + why.Error() + "). Nothing was run; send one object.")
}

// The hints of answers that found less than was asked for.
const (
	textEmptyGroup = "No tool has these words, yet the sources above are connected: search again with the service's name and one action or object."
	textNotFound   = "The names in not_found are not available now: use tool_search to get the names that are."
)

const textSameQuery = "This was searched before and the answer stays the same: use what it found, ask for something else, or tell the " +
	"user that no tool does it."

func textSearchStreak(n int) string {
	return strconv.Itoa(n) + " searches in a row without a tool_describe or tool_call: read or run what was found, or tell the user " +
		"that no tool does it."
}

// textNear goes with tools that answer most of a query and not all of it.
func textNear(unknown []string) string {
	const told = 5
	left := "no tool has all of these words"
	if len(unknown) > 0 {
		some := make([]string, 0, told)
		for _, w := range unknown[:min(len(unknown), told)] {
			some = append(some, quoted(w))
		}
		left = "no tool has " + strings.Join(some, ", ")
		if len(unknown) > told {
			left += " and others"
		}
	}
	return bounded("Nothing matches: " + left + ", so the tools in near are the closest and not matches: take one only if its " +
		"description fits, or search again with fewer words.")
}

// The answers to a name that tool_call cannot run.

func textDirect(name string) string {
	return bounded(quoted(name) + " is listed to you directly, so nothing was done here: call it by that name, without the bridge.")
}

func textNotOffered(name string) string {
	return bounded(quoted(name) + " is not offered in this session and nothing was done: do not try it again.")
}

func textOutOfScope(name string) string {
	return bounded(quoted(name) + " is not available in this session and nothing was run: use tool_search to find what is.")
}

// textUnknown names the candidates for an unknown name, or else the search.
func textUnknown(name string, candidates []string) string {
	text := quoted(name) + " is no known tool and nothing was run; exact names come from tool_search. "
	if len(candidates) == 0 {
		return bounded(text + "Use tool_search to find the right one.")
	}
	for i, c := range candidates {
		candidates[i] = quoted(c)
	}
	return bounded(text + "Did you mean " + strings.Join(candidates, ", ") + "?")
}

// bounded cuts a text that passes [MaxErrorText] and says so.
func bounded(text string) string {
	if cut := cutRunes(text, MaxErrorText); len(cut) < len(text) {
		return cut + textTruncated
	}
	return text
}

func quoted(name string) string { return "'" + clip(name, maxEchoedName) + "'" }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
