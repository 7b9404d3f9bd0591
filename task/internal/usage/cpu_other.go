//go:build !unix

package usage

import "time"

// CPU is 0 on systems other than Unix.
func CPU() time.Duration { return 0 }
