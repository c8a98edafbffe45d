//! `DescribeAcls`, `CreateAcls`, `DeleteAcls`.

use twinlog_protocol::messages::create_acls_request::AclCreation;
use twinlog_protocol::messages::create_acls_response::AclCreationResult;
use twinlog_protocol::messages::delete_acls_request::DeleteAclsFilter;
use twinlog_protocol::messages::delete_acls_response::{
    DeleteAclsFilterResult, DeleteAclsMatchingAcl,
};
use twinlog_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use twinlog_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse, StrBytes, string,
};

use crate::code::{CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, NONE, SECURITY_DISABLED};
use crate::rights::{Acl, AclFilter, CLUSTER_NAME, Operation, Pattern, Permission, Resource};
use crate::server::Call;
use crate::state::State;

const NO_AUTHORIZER: &str = "No Authorizer is configured.";
const NO_AUTHORIZER_TO_ASK: &str = "No Authorizer is configured on the broker";
const NOT_ALLOWED: &str = "Cluster authorization failed.";

/// The code of a planned fault, or what stands where there are no ACLs.
fn unusable(call: &Call, state: &State) -> Option<(i16, &'static str)> {
    if let Some(code) = call.refused("", -1) {
        return Some((code, ""));
    }
    state.options.authorizer.is_none().then_some((SECURITY_DISABLED, NO_AUTHORIZER))
}

fn may_alter(call: &Call, state: &State) -> bool {
    call.gate(state).on_cluster(Operation::Alter)
}

pub(crate) fn describe_acls(call: &Call, request: &DescribeAclsRequest) -> DescribeAclsResponse {
    let filter = AclFilter {
        resource: request.resource_type_filter,
        name: request.resource_name_filter.as_deref(),
        pattern: request.pattern_type_filter,
        principal: request.principal_filter.as_deref(),
        host: request.host_filter.as_deref(),
        operation: request.operation,
        permission: request.permission_type,
    };
    let out = DescribeAclsResponse::default().with_error_message(None);
    let found = call.cluster.with(|state| {
        if let Some((code, message)) = unusable(call, state) {
            // Who asks hears it in other words than who changes.
            let message = if code == SECURITY_DISABLED { NO_AUTHORIZER_TO_ASK } else { message };
            return Err((code, message.to_owned()));
        }
        filter.check().map_err(|message| (INVALID_REQUEST, message))?;
        Ok(state.acls.select(&filter))
    });
    let found = match found {
        Ok(found) => found,
        Err((code, message)) => {
            return out.with_error_code(code).with_error_message(Some(string(&message)));
        }
    };
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for acl in found {
        let entry = AclDescription::default()
            .with_principal(string(&acl.principal))
            .with_host(string(&acl.host))
            .with_operation(acl.operation.code())
            .with_permission_type(acl.permission.code());
        let same = |known: &&mut DescribeAclsResource| {
            known.resource_type == acl.resource.code()
                && known.pattern_type == acl.pattern.code()
                && known.resource_name.as_str() == acl.name
        };
        match resources.last_mut().filter(same) {
            Some(resource) => resource.acls.push(entry),
            None => resources.push(
                DescribeAclsResource::default()
                    .with_resource_type(acl.resource.code())
                    .with_resource_name(string(&acl.name))
                    .with_pattern_type(acl.pattern.code())
                    .with_acls(vec![entry]),
            ),
        }
    }
    out.with_resources(resources)
}

/// The ACL that a request means (`AclControlManager.validateNewAcl`, `AclApis`).
fn created(wanted: &AclCreation) -> Result<Acl, String> {
    let name = wanted.resource_name.as_str();
    let resource = Resource::from_code(wanted.resource_type)
        .ok_or_else(|| format!("Invalid resourceType {}", wanted.resource_type))?;
    if resource == Resource::Cluster && name != CLUSTER_NAME {
        return Err(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}"));
    }
    if name.is_empty() {
        return Err("Invalid empty resource name".to_owned());
    }
    let pattern = Pattern::from_code(wanted.resource_pattern_type)
        .ok_or_else(|| format!("Invalid patternType {}", wanted.resource_pattern_type))?;
    let operation = Operation::from_code(wanted.operation)
        .ok_or_else(|| format!("Invalid operation {}", wanted.operation))?;
    let permission = Permission::from_code(wanted.permission_type)
        .ok_or_else(|| format!("Invalid permissionType {}", wanted.permission_type))?;
    let principal = wanted.principal.as_str();
    if principal.split_once(':').is_none_or(|(kind, _)| kind.is_empty()) {
        return Err(format!(
            "Could not parse principal from `{principal}` (no colon is present separating the principal type from the principal name)"
        ));
    }
    if wanted.host.is_empty() {
        return Err("Host should not be empty".to_owned());
    }
    Ok(Acl {
        resource,
        pattern,
        name: name.to_owned(),
        principal: principal.to_owned(),
        host: wanted.host.to_string(),
        operation,
        permission,
    })
}

pub(crate) fn create_acls(call: &Call, request: &CreateAclsRequest) -> CreateAclsResponse {
    let results = call.cluster.with(|state| {
        let refusal = unusable(call, state).or_else(|| {
            (!may_alter(call, state)).then_some((CLUSTER_AUTHORIZATION_FAILED, NOT_ALLOWED))
        });
        let mut results = Vec::new();
        for wanted in &request.creations {
            let result = match refusal {
                Some((code, message)) => Err((code, message.to_owned())),
                None => created(wanted).map_err(|message| (INVALID_REQUEST, message)),
            };
            let out = AclCreationResult::default().with_error_message(None);
            results.push(match result {
                Ok(acl) => {
                    state.acls.add(acl);
                    out.with_error_code(NONE)
                }
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(Some(string(&message)))
                }
            });
        }
        state.changed = true;
        results
    });
    CreateAclsResponse::default().with_results(results)
}

pub(crate) fn delete_acls(call: &Call, request: &DeleteAclsRequest) -> DeleteAclsResponse {
    let results = call.cluster.with(|state| {
        let refusal = unusable(call, state).or_else(|| {
            (!may_alter(call, state)).then_some((CLUSTER_AUTHORIZATION_FAILED, NOT_ALLOWED))
        });
        let mut results = Vec::new();
        for wanted in &request.filters {
            let result = match refusal {
                Some((code, message)) => Err((code, message.to_owned())),
                None => delete(state, wanted).map_err(|message| (INVALID_REQUEST, message)),
            };
            let out = DeleteAclsFilterResult::default().with_error_message(None);
            results.push(match result {
                Ok(deleted) => out.with_matching_acls(deleted),
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(Some(string(&message)))
                }
            });
        }
        state.changed = true;
        results
    });
    DeleteAclsResponse::default().with_filter_results(results)
}

fn delete(
    state: &mut State,
    wanted: &DeleteAclsFilter,
) -> Result<Vec<DeleteAclsMatchingAcl>, String> {
    let text = |field: &'_ Option<StrBytes>| field.as_ref().map(std::string::ToString::to_string);
    let (name, principal, host) = (
        text(&wanted.resource_name_filter),
        text(&wanted.principal_filter),
        text(&wanted.host_filter),
    );
    let filter = AclFilter {
        resource: wanted.resource_type_filter,
        name: name.as_deref(),
        pattern: wanted.pattern_type_filter,
        principal: principal.as_deref(),
        host: host.as_deref(),
        operation: wanted.operation,
        permission: wanted.permission_type,
    };
    filter.check()?;
    let gone = state.acls.select(&filter);
    let deleted = |acl: Acl| {
        state.acls.remove(&acl);
        DeleteAclsMatchingAcl::default()
            .with_error_code(NONE)
            .with_error_message(None)
            .with_resource_type(acl.resource.code())
            .with_resource_name(string(&acl.name))
            .with_pattern_type(acl.pattern.code())
            .with_principal(string(&acl.principal))
            .with_host(string(&acl.host))
            .with_operation(acl.operation.code())
            .with_permission_type(acl.permission.code())
    };
    Ok(gone.into_iter().map(deleted).collect())
}
