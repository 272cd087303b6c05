package testenv

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// LogIn logs in with a kubeconfig that has a token and no other credentials, which is an error, and returns a client
// and the name that the API server knows its user by.
func LogIn(ctx context.Context, kubeconfig []byte) (clients kubernetes.Interface, user string, err error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if len(config.CertData) > 0 || config.Username != "" || config.Password != "" {
		return nil, "", errors.New("the kubeconfig has credentials besides the token")
	}
	if clients, err = kubernetes.NewForConfig(config); err != nil {
		return nil, "", fmt.Errorf("log in: %w", err)
	}
	reviews := clients.AuthenticationV1().SelfSubjectReviews()
	review, err := reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("ask for the own name: %w", err)
	}
	return clients, review.Status.UserInfo.Username, nil
}
