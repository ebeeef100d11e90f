package dispatch

import "toolsearch/subjects"

// StopCovers is the rule of which stops hold for a call. A stop that names the call always holds, also one that came
// before the call did. A stop of its session holds if it was stored after the call's record: calls that were accepted
// later are untouched. stop is the stop's subject taken apart, seq its sequence, created that of the record.
func StopCovers(stop subjects.Address, seq uint64, k CallKey, created uint64) bool {
	if stop.Family != subjects.FamilyStop || stop.Tenant != k.Tenant || stop.Session != k.Session {
		return false
	}
	if stop.Last != "" {
		return stop.Last == k.Call
	}
	return seq > created
}

// isClosed reports whether a channel that nobody sends on has been closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
