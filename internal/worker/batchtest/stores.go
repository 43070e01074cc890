package batchtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

func versionID(i int) string { return fmt.Sprintf("version-%032d", i) }

func (s *Server) secret(operation string, in map[string]any) (any, *Error) {
	name := text(in, "SecretId")
	versions, ok := s.secrets[name]
	if !ok {
		return nil, &Error{http.StatusBadRequest, "ResourceNotFoundException",
			"Secrets Manager can't find the specified secret."}
	}
	answer := map[string]any{"ARN": "arn:aws:secretsmanager:" + Region + ":1:secret:" + name + "-AbCdEf", "Name": name}
	switch operation {
	case "PutSecretValue":
		s.secrets[name] = append(versions, text(in, "SecretString"))
		answer["VersionId"] = versionID(len(versions))
	case "GetSecretValue":
		i := len(versions) - 1
		if v := text(in, "VersionId"); v != "" {
			for i = len(versions) - 1; i >= 0 && versionID(i) != v; i-- {
			}
		}
		if i < 0 {
			return nil, &Error{http.StatusBadRequest, "ResourceNotFoundException",
				"Secrets Manager can't find the specified secret value for VersionId"}
		}
		answer["VersionId"], answer["SecretString"] = versionID(i), versions[i]
	}
	return answer, nil
}

func (s *Server) parameter(operation string, in map[string]any) (any, *Error) {
	name := text(in, "Name")
	if operation == "PutParameter" {
		if overwrite, _ := in["Overwrite"].(bool); !overwrite && len(s.parameters[name]) > 0 {
			return nil, &Error{http.StatusBadRequest, "ParameterAlreadyExists", "The parameter already exists."}
		}
		if text(in, "Type") != "SecureString" {
			return nil, &Error{http.StatusBadRequest, "ValidationException", "expected a SecureString"}
		}
		s.parameters[name] = append(s.parameters[name], text(in, "Value"))
		return map[string]any{"Version": len(s.parameters[name])}, nil
	}
	name, selector, _ := strings.Cut(name, ":")
	versions := s.parameters[name]
	i := len(versions)
	if selector != "" {
		i, _ = strconv.Atoi(selector)
	}
	if i < 1 || i > len(versions) {
		return nil, &Error{http.StatusBadRequest, "ParameterNotFound", ""}
	}
	if plain, _ := in["WithDecryption"].(bool); !plain {
		return map[string]any{"Parameter": map[string]any{"Name": name, "Value": "AQICAHencrypted", "Version": i}}, nil
	}
	return map[string]any{"Parameter": map[string]any{"Name": name, "Type": "SecureString", "Value": versions[i-1],
		"Version": i}}, nil
}
