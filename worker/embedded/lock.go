package embedded

import "errors"

// errLocked says that another process, or another server of this one, holds the folder.
var errLocked = errors.New("locked")
