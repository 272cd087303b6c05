package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
)

// maxAnswer bounds what is read of an answer. A plugin has a few kilobytes in it.
const maxAnswer = 64 << 20

// Client asks a host. It is safe for concurrent use.
type Client struct {
	dir  string
	http *http.Client
}

// NewClient returns a client for the host with this run directory, whose token it reads for each request.
func NewClient(dir string) *Client {
	path := filepath.Join(dir, SocketName)
	return &Client{dir: dir, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}}
}

// Plugins lists the plugins of the host.
func (c *Client) Plugins(ctx context.Context) (*PluginList, error) {
	list := &PluginList{}
	if err := c.ask(ctx, http.MethodGet, pluginsPath, nil, list); err != nil {
		return nil, fmt.Errorf("ask the host for its plugins: %w", err)
	}
	return list, nil
}

// Jobs lists what the host remembers of jobs, newest first: of all items, or of those of a namespace and with a name, as far as these are not
// empty.
func (c *Client) Jobs(ctx context.Context, namespace, name string) (*JobList, error) {
	query := url.Values{}
	if namespace != "" {
		query.Set(queryNamespace, namespace)
	}
	if name != "" {
		query.Set(queryName, name)
	}
	list := &JobList{}
	if err := c.ask(ctx, http.MethodGet, jobsPath+"?"+query.Encode(), nil, list); err != nil {
		return nil, fmt.Errorf("ask the host for its jobs: %w", err)
	}
	return list, nil
}

// Reload has the plugins reloaded that have changed, and those with these files in any case, and waits until that is done. That something
// was not done is no error but in the result.
func (c *Client) Reload(ctx context.Context, files ...string) (*ReloadResult, error) {
	body, err := json.Marshal(ReloadRequest{Files: files})
	if err != nil {
		return nil, fmt.Errorf("write the request for a reload: %w", err)
	}
	result := &ReloadResult{}
	if err := c.ask(ctx, http.MethodPost, reloadPath, body, result); err != nil {
		return nil, fmt.Errorf("have the host reload its plugins: %w", err)
	}
	return result, nil
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, into any) (err error) {
	token, err := readToken(c.dir)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://host"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set(authorization, bearer+token)
	response, err := c.http.Do(request)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err // without the address, which means nothing to people
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		failure := &Failure{}
		if json.Unmarshal(content, failure) != nil || failure.Error == "" {
			failure.Error = "it answers " + response.Status
		}
		return errors.New(failure.Error)
	}
	return json.Unmarshal(content, into)
}
