package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// mostOfFile is how far into a file is looked for a token.
	mostOfFile = 1 << 20
	// patience is how long the API server may take for an answer.
	patience = 10 * time.Second
	// nobody is who asks without a token.
	nobody = "nobody"
)

// tokenFormat is that of the tokens of ServiceAccounts: two JSON objects and a signature, in base64.
var tokenFormat = regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`)

// touched is what touch-credentials exports and show-credentials prints.
type touched struct {
	// Tokens are the files and variables with a token, the tokens themselves left out.
	Tokens []string `json:"tokens"`
	// Read are the requests to the API server that it has answered, such as "nobody: /api/v1/secrets".
	Read []string `json:"read"`
	// Refused are those that it has not, with the status, such as "nobody: /api/v1/secrets: 403".
	Refused []string `json:"refused"`
}

func (s step) touchCredentials([]string) error {
	t, err := s.touch(nil)
	if err != nil {
		return err
	}
	return s.exportJSON(t)
}

func (s step) showCredentials(paths []string) error {
	t, err := s.touch(paths)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(s.out).Encode(t); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	return nil
}

// touch fails if there is no API server to try credentials on, which would be no proof of anything.
func (s step) touch(paths []string) (*touched, error) {
	t := &touched{Tokens: []string{}, Read: []string{}, Refused: []string{}}
	owners := map[string]string{"": nobody} // of tokens
	for _, found := range s.search() {
		t.Tokens = append(t.Tokens, found.place)
		owners[found.token] = found.place
	}
	server := "https://" + net.JoinHostPort(s.env("KUBERNETES_SERVICE_HOST"), s.env("KUBERNETES_SERVICE_PORT"))
	client := &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a thief does not care
	}
	defer client.CloseIdleConnections()
	for token, owner := range owners {
		for _, path := range s.targets(token, paths) {
			status, err := get(client, server+path, token)
			if err != nil {
				return nil, err
			}
			if status == http.StatusOK {
				t.Read = append(t.Read, owner+": "+path)
			} else {
				t.Refused = append(t.Refused, owner+": "+path+": "+strconv.Itoa(status))
			}
		}
	}
	for _, list := range [][]string{t.Tokens, t.Read, t.Refused} {
		slices.Sort(list)
	}
	return t, nil
}

// find is a token and where it is.
type find struct{ token, place string }

// search looks for tokens in all files and variables, those of other processes included, which are there if containers share them.
func (s step) search() []find {
	var finds []find
	add := func(place string, content []byte) {
		for _, token := range tokenFormat.FindAll(content, -1) {
			finds = append(finds, find{string(token), place})
		}
	}
	for _, variable := range s.environ() {
		name, value, _ := strings.Cut(variable, "=")
		add("$"+name, []byte(value))
	}
	roots := []string{s.root}
	processes, _ := filepath.Glob(filepath.Join(s.root, "proc", "[0-9]*")) // the pattern is well-formed
	for _, process := range processes {
		if filepath.Base(process) != strconv.Itoa(os.Getpid()) {
			add(process+"/environ", head(process+"/environ"))
			roots = append(roots, process+"/root")
		}
	}
	for _, root := range roots {
		// The slash has a link followed. What may not be read is passed over.
		_ = filepath.WalkDir(root+"/", func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // as above
			case entry.IsDir() && kernels(root, path):
				return fs.SkipDir
			case entry.Type().IsRegular():
				add(path, head(path))
			}
			return nil
		})
	}
	return finds
}

// kernels says whether a directory has files that are the kernel's.
func kernels(root, dir string) bool {
	name, err := filepath.Rel(root, dir)
	return err == nil && slices.Contains([]string{"proc", "sys", "dev"}, name)
}

// head returns the beginning of a file, or nothing if it may not be read.
func head(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	content, _ := io.ReadAll(io.LimitReader(file, mostOfFile))
	return content
}

// targets are the paths that are asked for with a token, of which more are named.
func (s step) targets(token string, more []string) []string {
	paths := []string{"/api/v1/namespaces", "/api/v1/secrets", "/api/v1/configmaps", "/api/v1/pods"}
	for _, path := range more {
		paths = append(paths, os.Expand(path, s.env))
	}
	namespaces := []string{"default", "kube-system", s.env(podNamespace), namespaceOf(token)}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		if namespace == "" {
			continue
		}
		for _, resource := range []string{"secrets", "configmaps", "pods"} {
			paths = append(paths, "/api/v1/namespaces/"+namespace+"/"+resource)
		}
	}
	return paths
}

// namespaceOf returns the namespace of the ServiceAccount that a token is of; "" if it says none.
func namespaceOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return ""
	}
	account, found := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	if !found {
		return ""
	}
	namespace, _, _ := strings.Cut(account, ":")
	return namespace
}

// get returns the status of an answer.
func get(client *http.Client, url, token string) (status int, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("ask the API server: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return response.StatusCode, nil
}
