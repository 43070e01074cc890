//go:build !nocloud

package awsbatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// Codes of Secrets Manager.
const (
	secretMissing = "ResourceNotFoundException"
	secretDeleted = "InvalidRequestException" // of a secret that is scheduled for deletion
)

// checkSecret returns an error if the secret does not exist. A user who may not describe it may
// still be allowed to write it.
func (k *launcher) checkSecret(ctx context.Context, c *clients) error {
	store, name, err := parseSecret(k.o.Secret)
	if err != nil || store != secretsManager {
		return err
	}
	d, err := c.describeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &name})
	switch {
	case err == nil && d.DeletedDate != nil:
		return batchError(secretDeleted, "the secret %s is scheduled for deletion", name)
	case err == nil || hasCode(err, "AccessDeniedException"):
		return nil
	}
	return noSecret(err, name)
}

func noSecret(err error, name string) error {
	if hasCode(err, secretMissing) {
		return batchError(secretMissing, "there is no secret %s in Secrets Manager", name)
	}
	return failed(err, "secret %s in Secrets Manager", name)
}

// putSecret writes the endpoint as a new version of the secret and returns the value of
// protocol.EnvSecret: store, name and version.
func (k *launcher) putSecret(ctx context.Context, c *clients, text string) (string, error) {
	store, name, err := parseSecret(k.o.Secret)
	if err != nil {
		return "", err
	}
	var version string
	switch store {
	case secretsManager:
		out, err := c.putSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &name, SecretString: &text})
		if err != nil {
			return "", noSecret(err, name)
		}
		version = aws.ToString(out.VersionId)
	default:
		out, err := c.putParameter(ctx, &ssm.PutParameterInput{Name: &name, Value: &text,
			Type: ssmtypes.ParameterTypeSecureString, Overwrite: aws.Bool(true)})
		if err != nil {
			return "", failed(err, "writing SSM parameter %s", name)
		}
		version = strconv.FormatInt(out.Version, 10)
	}
	return store + ":" + name + versionMark + version, nil
}

// Fetch returns the functions that fetch a worker's endpoint, by the name of the secret store, for
// apply's WorkOptions.Secrets. Region and credentials come from the container's environment and
// role.
func Fetch() map[string]func(ctx context.Context, name string) (string, error) {
	fetch := func(get func(context.Context, *clients, string, string) (*string, error)) func(context.Context,
		string) (string, error) {
		return func(ctx context.Context, secret string) (string, error) {
			c, err := connect(ctx, "", "", usual.backoff)
			if err != nil {
				return "", err
			}
			defer c.idle()
			name, version, _ := strings.Cut(secret, versionMark)
			text, err := get(ctx, c, name, version)
			return aws.ToString(text), err
		}
	}
	return map[string]func(context.Context, string) (string, error){
		secretsManager: fetch(func(ctx context.Context, c *clients, name, version string) (*string, error) {
			in := &secretsmanager.GetSecretValueInput{SecretId: &name}
			if version != "" {
				in.VersionId = &version
			}
			out, err := c.getSecretValue(ctx, in)
			if err != nil {
				return nil, failed(err, "reading secret %s in Secrets Manager", name)
			}
			return out.SecretString, nil
		}),
		parameterStore: fetch(func(ctx context.Context, c *clients, name, version string) (*string, error) {
			at := name
			if version != "" {
				at += ":" + version // the form of SSM
			}
			out, err := c.getParameter(ctx, &ssm.GetParameterInput{Name: &at, WithDecryption: aws.Bool(true)})
			if err != nil {
				return nil, failed(err, "reading SSM parameter %s", name)
			}
			if out.Parameter == nil {
				return nil, fmt.Errorf("SSM parameter %s has no value", name)
			}
			return out.Parameter.Value, nil
		}),
	}
}
