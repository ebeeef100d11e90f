// Package catalog is tool definitions in, disclosure out: it reads the tools of an agent, decides which of them a session
// may use and which its model sees at once, writes the listing of the others, and finds, describes and resolves them when
// the model asks.
//
// # The parts
//
// A [Catalog] is a list of definitions as they came, read and indexed once, however many sessions share it. A [Scope] is
// what one session may see of it: two small sets of positions, a configuration and the session's owner. Its [Scope.Document]
// is all that need be stored, and the SHA-256 of that document is its handle.
//
//	c, err := catalog.Build(tools, catalog.Limits{})            // tools: the bytes of an assemble request's field tools
//	s, err := catalog.NewScope(c, owner, request, catalog.DefaultConfig(), nil, nil)
//	reply := s.Assemble()                                       // the definitions that the model sees, and the bridge
//	q, err := s.ParseSearch(arguments)                          // what the model wrote
//	found := s.Search(q, nil)                                   // nil: connectors were not asked
//	schemas := s.Describe([]string{"mcp__github__create_issue"}, nil)
//
// An error that is a *[subjects.Error] is a fault of the request; a *[subjects.ToolError] is a mistake of the model and is
// worded for it.
//
// # How a search finds
//
// Of each tool its name, the label of its group, its description and the names of its parameters are indexed. Words are
// stemmed; an identifier in camelCase, with an acronym or digits yields its parts beside the whole; letters of all scripts
// are words, without accents; Chinese, Japanese and Korean text yields pairs of characters. Scores are BM25. A tool answers
// only if it has the rarest word of the query and enough of the others, so a word that no tool has empties the answer,
// which tells the model more than five bad matches would. The name of a tool, in whatever case, always finds that tool.
//
// Where nothing matches, the near half of the search offers the tools that answer most of the query, with a confidence that
// follows from one formula, see [NearConfidence]: fields weigh differently there, what the schema says about the parameters
// is read too, and words that say nothing are left out. Where the confidence is low nothing is offered, for a hunt for what
// no tool does must end. The words that no tool has are told as the model wrote them, and for a misspelt one the word that
// it may stand for.
//
// The number of tools, how many have a word and how long they are on average are counted over the tools of the scope
// alone, from the one index of the catalog. What a session was not granted can neither be found nor be felt in the
// ranking.
//
// # What it is not
//
// It knows no bus, no clock and no network, starts no goroutine, and keeps nothing between calls but what follows from
// its inputs. Tools behind connectors are searched elsewhere and handed in as [RemoteSearch] and [RemoteDescribe]; running
// a tool is the business of package dispatch.
//
// # Invariants
//
//   - Equal inputs give equal bytes, on every machine.
//   - A visible definition leaves byte for byte as it came.
//   - One bad definition never stops the others; it is left out and told by [Catalog.Rejected].
//   - A scope ranks as a catalog of only its tools would.
//   - Matches are what they would be without the near half; near stands only where there are none.
//   - Whatever ASCII words alone would find something for, finds something.
//   - A [Catalog], a [Set] and a [Scope] never change and serve many at once.
//   - The memory and time of a call are bounded by [Limits], [MaxDifferentWords], [MaxQueryWords] and the other bounds
//     named here, not by the good will of who sends it.
package catalog
