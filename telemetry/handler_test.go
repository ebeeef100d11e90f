package telemetry

import "net/http"

// AdminHandler is the handler of an admin server, for requests that come from nowhere.
func AdminHandler(o AdminOptions) http.Handler { return o.handler() }
