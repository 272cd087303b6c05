package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// lookAgain is the interval at which the wait container looks for the end of main.
const lookAgain = time.Second

// wait waits for the end of main, and uploads its results.
func wait(base string, ended <-chan os.Signal, log *slog.Logger) error {
	access := filepath.Join(base, layout.Access)
	log.Info("waiting for main to end")
	signal := mainEnded(filepath.Join(access, layout.EndedFile), ended)
	if signal == nil {
		// The kubelet restarts a native sidecar after an unasked end, as long as other containers go on.
		defer func() { <-ended }()
	}
	log.Info("main has ended, uploading its results", "signal", signal)
	upload, err := readUpload(filepath.Join(access, layout.UploadFile))
	if err != nil {
		return err
	}
	server, err := connect(access, log)
	if err != nil {
		return err
	}
	shared, err := os.OpenRoot(filepath.Join(base, layout.Shared))
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer func() { _ = shared.Close() }() // it was only read
	store := func(document *secret) error {
		if err := server.apply(upload.Namespace, document); err != nil {
			return err
		}
		server.log.Info("uploaded", "secret", document.Metadata.Name)
		return nil
	}
	report := &layout.Report{}
	if err := collectState(shared, upload, report, store); err != nil {
		return err
	}
	stateless := report.StateChunks == 0 && !report.StateFailed
	if stateless {
		// The last line must have it.
		server.log = log.With("note", layout.NoState)
		server.log.Info("there is nothing to keep")
	}
	if err := collectResult(shared, upload, report, store); stateless && err != nil {
		return fmt.Errorf("%w; %s", err, layout.NoState)
	} else if err != nil {
		return err
	}
	for _, problem := range report.Errors {
		log.Warn("not everything is uploaded", "reason", problem)
	}
	return nil
}

// mainEnded waits for the end of main, and returns its signal; nil for the file.
func mainEnded(file string, ended <-chan os.Signal) os.Signal {
	for {
		select {
		case signal := <-ended:
			return signal
		case <-time.After(lookAgain):
			if _, err := os.Stat(file); err == nil {
				return nil
			}
		}
	}
}

func readUpload(path string) (*layout.Upload, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the instructions for the upload: %w", err)
	}
	upload := &layout.Upload{}
	if err := json.Unmarshal(text, upload); err != nil {
		return nil, fmt.Errorf("read the instructions for the upload: %s: %w", path, err)
	}
	if upload.Namespace == "" || upload.Result == "" {
		return nil, errors.New("read the instructions for the upload: " + path + " names no Secret and its namespace")
	}
	return upload, nil
}

// secret has the written fields of a Secret.
type secret struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Type       string   `json:"type"`
	// Data is base64 in JSON.
	Data map[string][]byte `json:"data"`
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func newSecret(name string, labels, annotations map[string]string, data map[string][]byte) *secret {
	return &secret{
		APIVersion: "v1", Kind: "Secret", Type: "Opaque", Data: data,
		Metadata: metadata{Name: name, Labels: labels, Annotations: annotations},
	}
}

// collectState passes the Secrets with the state of main to store, one after the other, to hold no more than one in
// memory. The report names refused files.
func collectState(shared *os.Root, u *layout.Upload, report *layout.Report, store func(*secret) error) error {
	var failed error
	chunks, err := archive.Pack(shared, inShared(layout.State), int64(len(u.State))*layout.ChunkBytes,
		func(number int, chunk []byte) error {
			annotations := map[string]string{layout.NumberAnnotation: strconv.Itoa(number)}
			maps.Copy(annotations, u.StateAnnotations)
			data := map[string][]byte{layout.ChunkKey: chunk}
			failed = store(newSecret(u.State[number], u.StateLabels, annotations, data))
			return failed
		})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		report.StateFailed = true
		report.Errors = append(report.Errors, fmt.Sprintf("the state is not kept: %v", advised(err)))
	default:
		report.StateChunks = chunks
	}
	return nil
}

// collectResult passes the Secret with the exports of main and the complete report to store.
func collectResult(shared *os.Root, u *layout.Upload, report *layout.Report, store func(*secret) error) error {
	data := map[string][]byte{}
	exports, err := readExports(shared, u.MaxExportBytes)
	switch {
	case err == nil:
		report.Exported, data[layout.ChunkKey] = true, exports
	case !errors.Is(err, fs.ErrNotExist):
		report.Errors = append(report.Errors, fmt.Sprintf("the exports are not taken: %v", advised(err)))
	}
	if data[layout.ReportKey], err = json.Marshal(report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return store(newSecret(u.Result, u.ResultLabels, u.ResultAnnotations, data))
}

// readExports reads the file with exports. The error is fs.ErrNotExist for a missing one.
func readExports(shared *os.Root, maxBytes int64) ([]byte, error) {
	name := inShared(layout.Exports)
	f, err := archive.Open(shared, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if int64(len(content)) > maxBytes {
		return nil, fmt.Errorf("%q has more bytes than the limit of %d; export less", name, maxBytes)
	}
	return content, nil
}

// advised adds a way out to an error about missing rights.
func advised(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; have the image make its results readable for all users", err)
	}
	return err
}
