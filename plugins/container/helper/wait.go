package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// wait waits until main has ended, and uploads what it has left.
func wait(base string, ended <-chan os.Signal, log *slog.Logger) error {
	log.Info("waiting for main to end")
	log.Info("main has ended, uploading its results", "signal", (<-ended).String())
	access := filepath.Join(base, layout.Access)
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
	results := collect(shared, upload)
	for _, problem := range results.report.Errors {
		log.Warn("not everything is uploaded", "reason", problem)
	}
	documents, err := documents(upload, results)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if err := server.apply(upload.Namespace, document); err != nil {
			return err
		}
		log.Info("uploaded", "secret", document.Metadata.Name)
	}
	return nil
}

func readUpload(path string) (*layout.Upload, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what to upload: %w", err)
	}
	upload := &layout.Upload{}
	if err := json.Unmarshal(text, upload); err != nil {
		return nil, fmt.Errorf("read what to upload: %s: %w", path, err)
	}
	if upload.Namespace == "" || upload.Result == "" {
		return nil, errors.New("read what to upload: " + path + " names no Secret and its namespace")
	}
	return upload, nil
}

// secret is a Secret as far as it is written.
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

// documents returns the Secrets to write, in this order.
func documents(u *layout.Upload, r *results) ([]*secret, error) {
	var all []*secret
	for i, chunk := range r.chunks {
		annotations := map[string]string{}
		maps.Copy(annotations, u.StateAnnotations)
		annotations[layout.NumberAnnotation] = strconv.Itoa(i)
		all = append(all, newSecret(u.State[i], u.StateLabels, annotations, map[string][]byte{layout.ChunkKey: chunk}))
	}
	report, err := json.Marshal(r.report)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	data := map[string][]byte{layout.ReportKey: report}
	if r.report.Exported {
		data[layout.ChunkKey] = r.exports
	}
	return append(all, newSecret(u.Result, u.ResultLabels, u.ResultAnnotations, data)), nil
}
