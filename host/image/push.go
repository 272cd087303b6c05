package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// push copies the image that an archive has by this tag to a repository, with what refers to it, under the same tag. It takes the credentials
// that docker login has left. To a registry on this machine itself it speaks plain HTTP if its name says so, as other tools do.
func push(ctx context.Context, archive, repository, tag string) (ocispec.Descriptor, error) {
	from, err := oci.NewFromTar(ctx, archive)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("read %s: %w", archive, err)
	}
	to, err := remote.NewRepository(repository)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("push to %s: %w", repository, err)
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("read credentials of docker: %w", err)
	}
	to.PlainHTTP = onThisMachine(to.Reference.Host())
	to.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(), Credential: credentials.Credential(store)}
	pushed, err := oras.ExtendedCopy(ctx, from, tag, to, tag, oras.DefaultExtendedCopyOptions)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("push to %s:%s: %w", repository, tag, err)
	}
	return pushed, nil
}

// onThisMachine tells whether a host, with its port, is this machine by its name.
func onThisMachine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if addressErr := (*net.AddrError)(nil); errors.As(err, &addressErr) { // without a port
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
