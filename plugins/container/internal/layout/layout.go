// Package layout is what the containers of a run agree on with each other and with the deployer: paths, names of
// variables and the documents that they exchange. Paths and variables that the image sees are those of Landscaper's
// container deployer, so that its images run unchanged.
package layout

import (
	"fmt"
	"path"
)

// The containers of a Pod.
const (
	InitContainer = "init"
	MainContainer = "main"
	WaitContainer = "wait"
)

// Base is the directory that all paths are in, unless a test has another one.
const Base = "/data/ls"

// Paths below Base. What is in shared is a volume that all containers have; the others are seen by one container each.
const (
	Shared              = "shared"
	Imports             = Shared + "/imports/import.json"
	Exports             = Shared + "/exports/values"
	ComponentDescriptor = Shared + "/component_descriptor.json"
	Target              = Shared + "/targets/target.json"
	Content             = Shared + "/content"
	State               = Shared + "/state"

	// Input has the chunks of an archive with what the init container puts into shared, and OldState those of an
	// archive with the content of State. Both are directories with files that ChunkFile names; there is no OldState
	// before the first run.
	Input    = "internal/input"
	OldState = "internal/state"
	// Access is what the wait container needs for its uploads: a directory with TokenFile, AuthoritiesFile and
	// UploadFile. The init container has AuthoritiesFile alone there.
	Access = "internal/access"
)

// Files in Access.
const (
	// TokenFile has a token of the run's own ServiceAccount. It may be replaced at any time.
	TokenFile = "token"
	// AuthoritiesFile has the certificates of the API server's authorities, PEM.
	AuthoritiesFile = "ca.crt"
	// UploadFile is an Upload as JSON.
	UploadFile = "upload.json"
	// EndedFile is there when main has ended and other containers go on, for which Kubernetes does not end the wait
	// container.
	EndedFile = "ended"
)

// UnreachableExitCode is that of an init container which cannot reach the API server.
const UnreachableExitCode = 3

// NoState is in the last lines of a wait container that has found no state, so that none is lost if it uploads nothing.
const NoState = "main has left no state"

// Variables in the environment of all containers, which name paths.
const (
	ImportsVariable             = "IMPORTS_PATH"
	ExportsVariable             = "EXPORTS_PATH"
	ComponentDescriptorVariable = "COMPONENT_DESCRIPTOR_PATH"
	TargetVariable              = "TARGET_PATH"
	ContentVariable             = "CONTENT_PATH"
	StateVariable               = "STATE_PATH"
)

// Other variables.
const (
	PodNameVariable      = "POD_NAME"
	PodNamespaceVariable = "POD_NAMESPACE"
	// OperationVariable says what main is run for. Only main has it.
	OperationVariable = "OPERATION"
	// Of the init and wait containers, as in Landscaper.
	DeployItemNameVariable      = "DEPLOY_ITEM_NAME"
	DeployItemNamespaceVariable = "DEPLOY_ITEM_NAMESPACE"
)

// Variables returns the variables that name paths, with their values for a base directory.
func Variables(base string) map[string]string {
	return map[string]string{
		ImportsVariable:             path.Join(base, Imports),
		ExportsVariable:             path.Join(base, Exports),
		ComponentDescriptorVariable: path.Join(base, ComponentDescriptor),
		TargetVariable:              path.Join(base, Target),
		ContentVariable:             path.Join(base, Content),
		StateVariable:               path.Join(base, State),
	}
}

const (
	// ChunkBytes is the size of all chunks of an archive but the last: what a Secret can hold.
	ChunkBytes = 1 << 20
	// MaxFiles is how many files and directories there may be in an archive.
	MaxFiles = 10_000
	// MaxUnpackedBytes is how many bytes the files of an archive may have together.
	MaxUnpackedBytes = 256 << 20
)

// Upload says what the wait container uploads, and where to. It may write the Secrets that it names and nothing else,
// and can read none.
type Upload struct {
	// Namespace of the Secrets.
	Namespace string `json:"namespace"`
	// Result is the name of the Secret with the exports and the Report.
	Result string `json:"result"`
	// State are the names of the Secrets for the chunks of the state, as many as there may be.
	State []string `json:"state"`
	// ResultLabels and StateLabels are the labels of those Secrets.
	ResultLabels map[string]string `json:"resultLabels"`
	StateLabels  map[string]string `json:"stateLabels"`
	// ResultAnnotations and StateAnnotations are their annotations; those of the state have NumberAnnotation besides.
	ResultAnnotations map[string]string `json:"resultAnnotations"`
	StateAnnotations  map[string]string `json:"stateAnnotations"`
	// MaxExportBytes is how long the exports may be.
	MaxExportBytes int64 `json:"maxExportBytes"`
}

const (
	// ChunkKey is the key of a chunk in a Secret of the state, as in Landscaper. It is also the one of the exports in
	// the result.
	ChunkKey = "config"
	// ReportKey is the key of the Report in the result.
	ReportKey = "report"
	// NumberAnnotation numbers the chunks of a state from zero, as in Landscaper.
	NumberAnnotation = "container.deployer.landscaper.gardener.cloud/num"
	// FieldManager owns the fields of what the wait container writes.
	FieldManager = "pergola-container-wait"
)

// Report says what the wait container has uploaded. It is uploaded last, so that all is there that it tells of.
type Report struct {
	// Exported: there is a file with exports, and it is in the result.
	Exported bool `json:"exported"`
	// StateChunks is how many of the Secrets for the state are in use; 0 if there is no file in the state.
	StateChunks int `json:"stateChunks"`
	// Errors are what could not be uploaded and why, for the user; none if all is well. The state of before is to be
	// kept if StateFailed.
	Errors      []string `json:"errors,omitempty"`
	StateFailed bool     `json:"stateFailed,omitempty"`
}

// ChunkFile is the name of the file with a chunk, numbered from zero.
func ChunkFile(number int) string { return fmt.Sprintf("%04d", number) }
