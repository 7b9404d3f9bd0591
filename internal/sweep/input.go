package sweep

// Champion is the alias of the version in production.
const Champion = "champion"

// Input is, in plans of earlier builds, the registered version to which the trials added trees: continue: in
// sweep.yaml. Such a plan can be read, and what was trained by it concluded; it is not trained.
type Input struct {
	Model   string `json:"model"`
	Version int    `json:"version"`
}

// MaxInput bounds the bytes of a model that a trial of a population continues.
const MaxInput = 1 << 30
