// Package layout is the contract of the containers of a run with each other and with the deployer: paths, names of
// variables and the documents exchanged between them. The image sees the paths and variables of Landscaper's
// container deployer, so its images run unchanged.
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

// Base is the directory above all paths, except in tests.
const Base = "/data/ls"

// Paths below Base. Shared is a volume of all containers; the others are seen by one container each.
const (
	Shared              = "shared"
	Imports             = Shared + "/imports/import.json"
	Exports             = Shared + "/exports/values"
	ComponentDescriptor = Shared + "/component_descriptor.json"
	Target              = Shared + "/targets/target.json"
	Content             = Shared + "/content"
	State               = Shared + "/state"

	// Input has the chunks of an archive, unpacked by the init container into shared, and OldState those of an archive
	// with the content of State. Both are directories with files named by ChunkFile; the first run has no OldState.
	Input    = "internal/input"
	OldState = "internal/state"
	// Access is the directory with everything the wait container needs for its uploads: TokenFile, AuthoritiesFile and
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
	// EndedFile appears if main has ended and other containers go on: Kubernetes does not end the wait container then.
	EndedFile = "ended"
)

// UnreachableExitCode is the exit code of an init container without a way to the API server.
const UnreachableExitCode = 3

// NoState is in the last lines of a wait container after a run without a state: without an upload, no state is lost
// then.
const NoState = "main has left no state"

// Variables in the environment of all containers, with paths.
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
	// OperationVariable has the operation of the run. Only main has it.
	OperationVariable = "OPERATION"
	// Of the init and wait containers, as in Landscaper.
	DeployItemNameVariable      = "DEPLOY_ITEM_NAME"
	DeployItemNamespaceVariable = "DEPLOY_ITEM_NAMESPACE"
)

// Variables returns the variables with paths for a base directory.
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
	// ChunkBytes is the size of all chunks of an archive but the last: the capacity of a Secret.
	ChunkBytes = 1 << 20
	// MaxFiles bounds the number of files and directories in an archive.
	MaxFiles = 10_000
	// MaxUnpackedBytes bounds the bytes of all files of an archive together.
	MaxUnpackedBytes = 256 << 20
)

// Upload tells the wait container its uploads. Its rights allow it to write the named Secrets and nothing else, and
// to read none.
type Upload struct {
	// Namespace of the Secrets.
	Namespace string `json:"namespace"`
	// Result is the name of the Secret with the exports and the Report.
	Result string `json:"result"`
	// State are the names of the Secrets for the chunks of the state, as many as its limit allows.
	State []string `json:"state"`
	// ResultLabels and StateLabels are the labels of those Secrets.
	ResultLabels map[string]string `json:"resultLabels"`
	StateLabels  map[string]string `json:"stateLabels"`
	// ResultAnnotations and StateAnnotations are their annotations; the Secrets of the state have NumberAnnotation
	// besides.
	ResultAnnotations map[string]string `json:"resultAnnotations"`
	StateAnnotations  map[string]string `json:"stateAnnotations"`
	// MaxExportBytes bounds the size of the exports.
	MaxExportBytes int64 `json:"maxExportBytes"`
}

const (
	// ChunkKey is the key of a chunk in a Secret of the state, as in Landscaper. It is also the key of the exports in
	// the result.
	ChunkKey = "config"
	// ReportKey is the key of the Report in the result.
	ReportKey = "report"
	// NumberAnnotation numbers the chunks of a state from zero, as in Landscaper.
	NumberAnnotation = "container.deployer.landscaper.gardener.cloud/num"
	// FieldManager owns the fields written by the wait container.
	FieldManager = "pergola-container-wait"
)

// Report lists the uploads of the wait container. It is uploaded last, after everything listed in it.
type Report struct {
	// Exported: there is a file with exports, and it is in the result.
	Exported bool `json:"exported"`
	// StateChunks is the number of used Secrets of the state; 0 without a file in the state.
	StateChunks int `json:"stateChunks"`
	// Errors are the results without an upload and the reasons, for the user; none if all is well. With StateFailed the
	// previous state is kept.
	Errors      []string `json:"errors,omitempty"`
	StateFailed bool     `json:"stateFailed,omitempty"`
}

// ChunkFile returns the name of the file with a chunk, numbered from zero.
func ChunkFile(number int) string { return fmt.Sprintf("%04d", number) }
